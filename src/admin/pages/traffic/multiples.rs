//! Small charts below the chart of traffic, on the same axis of time: how much of what was tried
//! succeeded, how long deliveries took, what waited, and what was given up.

use std::time::Duration;

use crate::admin::pages::traffic::{Range, Sum, print_bound, took};
use crate::admin::widgets::chart::{Canvas, Shape, share_of};
use crate::admin::widgets::print;
use crate::store::views::{Bound, TrafficSlot};

/// The page stretches it.
const CANVAS: Canvas = Canvas {
    width: 600,
    height: 48,
};

/// The time at the foot of the scale of latencies, whose least bound is a little longer.
const FLOOR_MS: u64 = 1;

/// Where those are drawn that took longer than is told apart: a week, which is as long as a delivery lives
/// (rule N9).
const LONGER_MS: u64 = 604_800_000;

/// One small chart.
#[derive(Clone, Debug)]
pub(crate) struct Multiple {
    pub(crate) title: &'static str,
    /// What is drawn how, where that is not plain.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Its greatest value and the unit.
    pub(crate) scale: String,
    /// The whole of it in a sentence.
    pub(crate) said: String,
    pub(crate) shapes: Vec<Shape>,
}

/// All of them, from top to bottom.
pub(crate) fn multiples(slots: &[TrafficSlot], sum: &Sum, range: Range) -> Vec<Multiple> {
    vec![
        success(slots, sum, range),
        latency(slots, sum, range),
        waiting(slots, range),
        dead_letters(slots, sum, range),
    ]
}

fn success(slots: &[TrafficSlot], sum: &Sum, range: Range) -> Multiple {
    let tried = |slot: &TrafficSlot| slot.tried() > 0;
    let of = |slot: &TrafficSlot| share_of(slot.delivered, slot.tried());
    let heights: Vec<_> = slots
        .iter()
        .map(|slot| tried(slot).then(|| of(slot)))
        .collect();
    let tried = slots.iter().filter(|slot| tried(slot));
    let worst = tried.min_by(|a, b| of(a).total_cmp(&of(b)));
    Multiple {
        title: "Attempts that succeeded",
        keys: &[],
        scale: match worst {
            None => "0 % to 100 %".to_owned(),
            Some(slot) => format!("0 % to 100 %; lowest: {}", share_in(slot)),
        },
        said: match worst {
            None => range.says("nothing was tried"),
            Some(slot) => range.says(&format!(
                "{} of {} succeeded; at worst {} in {}",
                print::share(sum.delivered, sum.tried),
                print::plural(sum.tried, "attempt", "attempts"),
                share_in(slot),
                range.step()
            )),
        },
        shapes: vec![
            shape("success-area", CANVAS.below_steps(&heights)),
            shape("success", CANVAS.steps(&heights)),
        ],
    }
}

fn share_in(slot: &TrafficSlot) -> String {
    print::share(slot.delivered, slot.tried())
}

/// On a scale of powers of ten: from a disk's milliseconds to hours of retries, nothing else would show both.
fn latency(slots: &[TrafficSlot], sum: &Sum, range: Range) -> Multiple {
    let bounds = |part: f64| slots.iter().map(move |slot| slot.latency.within_ms(part));
    let longest = bounds(0.95).flatten().max_by_key(|bound| drawn_ms(*bound));
    let top = longest.map_or(FLOOR_MS, drawn_ms);
    let steps = |part: f64| {
        let heights: Vec<_> = bounds(part)
            .map(|bound| Some(log_share(bound?, top)))
            .collect();
        CANVAS.steps(&heights)
    };
    Multiple {
        title: "Time from publishing to delivery",
        keys: &[("half", "50 % within"), ("most", "95 % within")],
        scale: match longest {
            None => "none delivered".to_owned(),
            Some(_) => format!("logarithmic, {FLOOR_MS} ms to {}", print_bound(longest)),
        },
        said: match longest {
            None => range.says("nothing was delivered"),
            Some(bound) => range.says(&format!(
                "half of the deliveries took {}, 95 % {}; at worst 95 % took {} in {}",
                took(sum.latency.within_ms(0.5)),
                took(sum.latency.within_ms(0.95)),
                took(Some(bound)),
                range.step()
            )),
        },
        shapes: vec![shape("most", steps(0.95)), shape("half", steps(0.5))],
    }
}

fn drawn_ms(bound: Bound) -> u64 {
    match bound {
        Bound::Within(ms) => ms,
        Bound::Longer => LONGER_MS,
    }
}

fn log_share(bound: Bound, top: u64) -> f64 {
    let tens = |ms: u64| (ms as f64 / FLOOR_MS as f64).log10();
    tens(drawn_ms(bound)) / tens(top)
}

/// From what waited when the first slot began to what waits now.
fn waiting(slots: &[TrafficSlot], range: Range) -> Multiple {
    let before = slots.first().map(TrafficSlot::pending_before);
    let ends = slots.iter().map(|slot| slot.pending);
    let pending: Vec<u64> = before.into_iter().chain(ends).collect();
    let most = pending.iter().copied().max().unwrap_or(0);
    let now = pending.last().copied().unwrap_or(0);
    let heights: Vec<f64> = pending.iter().map(|each| share_of(*each, most)).collect();
    Multiple {
        title: "Waiting deliveries",
        keys: &[],
        scale: highest(most, "delivery", "deliveries"),
        said: range.says(&match most {
            0 => "no delivery waited".to_owned(),
            most => format!(
                "at most {} waited; now {}",
                print::plural(most, "delivery", "deliveries"),
                print::plural(now, "waits", "wait")
            ),
        }),
        shapes: vec![
            shape("waiting-area", CANVAS.below_line(&heights)),
            shape("waiting", CANVAS.line(&heights)),
        ],
    }
}

fn dead_letters(slots: &[TrafficSlot], sum: &Sum, range: Range) -> Multiple {
    let most = slots
        .iter()
        .map(|slot| slot.dead_lettered)
        .max()
        .unwrap_or(0);
    let spans: Vec<_> = slots
        .iter()
        .map(|slot| (0.0, share_of(slot.dead_lettered, most)))
        .collect();
    Multiple {
        title: "New dead letters",
        keys: &[],
        scale: match most {
            0 => "none".to_owned(),
            most => format!(
                "{} in {}",
                highest(most, "dead letter", "dead letters"),
                range.step()
            ),
        },
        said: range.says(&match most {
            0 => "no delivery was dead-lettered".to_owned(),
            most => format!(
                "{} dead-lettered; at most {} in {}",
                print::plural(sum.dead_lettered, "delivery was", "deliveries were"),
                print::count(most),
                range.step()
            ),
        }),
        shapes: vec![shape("dead-lettered", CANVAS.bars(&spans))],
    }
}

fn highest(most: u64, one: &str, many: &str) -> String {
    match most {
        0 => "none".to_owned(),
        most => format!("highest: {}", print::plural(most, one, many)),
    }
}

fn shape(class: &'static str, path: String) -> Shape {
    Shape { class, path }
}

impl Range {
    /// A sentence about all of it.
    pub(crate) fn says(self, what: &str) -> String {
        format!("Last {}: {what}.", self.title)
    }

    /// One slot's length: `1 min`, `4 h`.
    pub(crate) fn step(self) -> String {
        print::span(Duration::from_millis(self.step_ms.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::pages::traffic::{RANGES, slot};

    #[test]
    fn each_chart_says_in_a_sentence_what_it_draws() {
        let mut slots = [slot(0), slot(1), slot(2), slot(3)];
        slots[0].attempts = 4;
        slots[0].delivered = 3;
        slots[0].dead_lettered = 1;
        slots[0].matched = 6;
        slots[0].pending = 2;
        slots[1].pending = 2;
        slots[2].attempts = 1;
        slots[2].pending = 1;
        slots[2].dropped = 1;
        slots[3].pending = 1;
        let drawn = multiples(&slots, &Sum::of(&slots), RANGES[0]);
        let said: Vec<_> = drawn.iter().map(|each| each.said.as_str()).collect();
        assert_eq!(
            said,
            [
                "Last 1 hour: 60.0 % of 5 attempts succeeded; at worst 0.0 % in 1 min.",
                "Last 1 hour: nothing was delivered.",
                "Last 1 hour: at most 2 deliveries waited; now 1 waits.",
                "Last 1 hour: 1 delivery was dead-lettered; at most 1 in 1 min.",
            ]
        );
        let scales: Vec<_> = drawn.iter().map(|each| each.scale.as_str()).collect();
        assert_eq!(
            scales,
            [
                "0 % to 100 %; lowest: 0.0 %",
                "none delivered",
                "highest: 2 deliveries",
                "highest: 1 dead letter in 1 min",
            ]
        );
        let path = |chart: usize, shape: usize| drawn[chart].shapes[shape].path.as_str();
        assert_eq!(
            path(0, 1),
            "M0 12V12H150M300 48V48H450",
            "a gap where nothing was tried"
        );
        assert_eq!(path(2, 1), "M0 48L150 0L300 0L450 24L600 24");
        assert_eq!(path(3, 0), "M15 48V0H135V48Z");
    }

    #[test]
    fn latencies_are_drawn_by_powers_of_ten() {
        let height = |bound, top| log_share(bound, top);
        assert!((height(Bound::Within(10), 1_000) - 1.0 / 3.0).abs() < 1e-9);
        assert!((height(Bound::Longer, LONGER_MS) - 1.0).abs() < 1e-9);
        assert!(height(Bound::Within(86_400_000), LONGER_MS) < 1.0);
    }

    #[test]
    fn quiet_times_are_said_to_be() {
        let slots = [slot(0)];
        let drawn = multiples(&slots, &Sum::of(&slots), RANGES[4]);
        let said: Vec<_> = drawn.iter().map(|each| each.said.as_str()).collect();
        assert_eq!(
            said,
            [
                "Last 30 days: nothing was tried.",
                "Last 30 days: nothing was delivered.",
                "Last 30 days: no delivery waited.",
                "Last 30 days: no delivery was dead-lettered.",
            ]
        );
        let shapes = drawn.iter().flat_map(|each| &each.shapes);
        assert_eq!(
            shapes.filter(|shape| !shape.path.is_empty()).count(),
            2,
            "the line of none"
        );
    }
}
