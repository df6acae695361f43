//! What happened when: charts of the traffic of a topic, of an event subscription or of everything, with
//! their figures and a table of the same numbers.

mod multiples;

use std::time::Duration;

use askama::Template;
use serde::Deserialize;

use crate::admin::lists::link;
use crate::admin::pages::traffic::multiples::{Multiple, multiples};
use crate::admin::site::Site;
use crate::admin::widgets::chart::{Canvas, Shape, share_of};
use crate::admin::widgets::print;
use crate::admin::widgets::{Moment, part};
use crate::base::Timestamp;
use crate::store::StoreError;
use crate::store::views::{Bound, Latency, TrafficOf, TrafficQuery, TrafficSlot};

/// The page stretches it.
const CANVAS: Canvas = Canvas {
    width: 600,
    height: 120,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How far back a chart reaches. Steps are no finer than what counters are kept by at that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// In the address.
    name: &'static str,
    title: &'static str,
    step_ms: i64,
    slots: i64,
}

const RANGES: [Range; 5] = [
    range("1h", "1 hour", MINUTE_MS, 60),
    range("6h", "6 hours", 5 * MINUTE_MS, 72),
    range("24h", "24 hours", HOUR_MS, 24),
    range("7d", "7 days", 4 * HOUR_MS, 42),
    range("30d", "30 days", DAY_MS, 30),
];

const fn range(name: &'static str, title: &'static str, step_ms: i64, slots: i64) -> Range {
    Range {
        name,
        title,
        step_ms,
        slots,
    }
}

/// The part of an address that chooses the range.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RangeChoice {
    #[serde(default)]
    range: String,
}

impl RangeChoice {
    fn chosen(&self) -> Range {
        let named = RANGES.into_iter().find(|range| range.name == self.range);
        named.unwrap_or(RANGES[0])
    }
}

/// The charts with everything around them.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/traffic.html")]
pub(crate) struct Traffic {
    ranges: Vec<RangeLink>,
    figures: Vec<Figure>,
    shapes: Vec<Shape>,
    from: Moment,
    until: Moment,
    most: String,
    summary: String,
    multiples: Vec<Multiple>,
    counts_events: bool,
    rows: Vec<TrafficRow>,
}

#[derive(Clone, Debug)]
struct RangeLink {
    href: String,
    title: &'static str,
    current: bool,
}

#[derive(Clone, Debug)]
struct Figure {
    label: &'static str,
    value: String,
}

/// A slot in which something happened.
#[derive(Clone, Debug)]
struct TrafficRow {
    from: Moment,
    published: String,
    attempts: String,
    delivered: String,
    dead_lettered: String,
    dropped: String,
    succeeded: String,
    half: String,
    most: String,
    waiting: String,
}

part!(Traffic);

impl Traffic {
    /// Reads what `choice` asks for, for the page at `path`.
    pub(crate) async fn read(
        site: &Site,
        of: TrafficOf,
        choice: &RangeChoice,
        path: &str,
    ) -> Result<Self, StoreError> {
        let range = choice.chosen();
        let now = site.broker.clock().now();
        let query = TrafficQuery::until(now, of, range.step_ms, range.slots);
        let slots = site.views.traffic(query).await?;
        let counts_events = !matches!(of, TrafficOf::Subscription(_));
        Ok(Self::draw(&slots, range, counts_events, path, now))
    }

    fn draw(
        slots: &[TrafficSlot],
        range: Range,
        counts_events: bool,
        path: &str,
        now: Timestamp,
    ) -> Self {
        let most = slots.iter().map(height).max().unwrap_or(0);
        let sum = Sum::of(slots);
        Self {
            ranges: links(range, path),
            figures: sum.figures(counts_events),
            shapes: shapes(slots, most, counts_events),
            from: Moment::at(slots.first().map_or(now, |slot| slot.start_at)),
            until: Moment::at(now),
            most: format!("highest: {} in {}", print::count(most), range.step()),
            summary: sum.sentence(range),
            multiples: multiples(slots, &sum, range),
            counts_events,
            rows: rows(slots),
        }
    }
}

fn links(chosen: Range, path: &str) -> Vec<RangeLink> {
    let each = RANGES.into_iter().map(|range| RangeLink {
        href: link(path, &[("range", range.name.to_owned())]),
        title: range.title,
        current: range == chosen,
    });
    each.collect()
}

fn height(slot: &TrafficSlot) -> u64 {
    slot.ended().max(slot.published)
}

/// One stack for each slot: delivered at the bottom, then what was given up; before them what was
/// published, where that is counted.
fn shapes(slots: &[TrafficSlot], most: u64, counts_events: bool) -> Vec<Shape> {
    let stack = |class, below: fn(&TrafficSlot) -> u64, count: fn(&TrafficSlot) -> u64| {
        let spans = slots.iter().map(|slot| {
            let from = below(slot);
            (share_of(from, most), share_of(from + count(slot), most))
        });
        let path = CANVAS.bars(&spans.collect::<Vec<_>>());
        Shape { class, path }
    };
    let mut shapes = vec![
        stack("delivered", |_| 0, |slot| slot.delivered),
        stack(
            "dead-lettered",
            |slot| slot.delivered,
            |slot| slot.dead_lettered,
        ),
        stack(
            "dropped",
            |slot| slot.delivered + slot.dead_lettered,
            |slot| slot.dropped,
        ),
    ];
    if counts_events {
        let published = slots
            .iter()
            .map(|slot| Some(share_of(slot.published, most)));
        let path = CANVAS.steps(&published.collect::<Vec<_>>());
        let class = "published";
        shapes.push(Shape { class, path });
    }
    shapes
}

/// The slots in which something happened, newest first; and what waits now, if only that is to be told.
fn rows(slots: &[TrafficSlot]) -> Vec<TrafficRow> {
    let newest = slots.last().map(|slot| slot.start_at);
    let tells = |slot: &&TrafficSlot| {
        !slot.is_quiet() || (Some(slot.start_at) == newest && slot.pending > 0)
    };
    slots
        .iter()
        .rev()
        .filter(tells)
        .map(TrafficRow::of)
        .collect()
}

/// All slots together.
#[derive(Default)]
struct Sum {
    published: u64,
    unmatched: u64,
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
    tried: u64,
    latency: Latency,
}

impl Sum {
    fn of(slots: &[TrafficSlot]) -> Self {
        slots.iter().fold(Self::default(), |sum, slot| Self {
            published: sum.published + slot.published,
            unmatched: sum.unmatched + slot.unmatched,
            delivered: sum.delivered + slot.delivered,
            dead_lettered: sum.dead_lettered + slot.dead_lettered,
            dropped: sum.dropped + slot.dropped,
            tried: sum.tried + slot.tried(),
            latency: sum.latency.plus(slot.latency),
        })
    }

    fn figures(&self, counts_events: bool) -> Vec<Figure> {
        let mut figures = Vec::new();
        let mut add = |label, value| figures.push(Figure { label, value });
        if counts_events {
            add("Published", print::count(self.published));
            add("Unmatched", print::count(self.unmatched));
        }
        add("Delivered", print::count(self.delivered));
        add("Dead-lettered", print::count(self.dead_lettered));
        if self.dropped > 0 {
            add("Dropped", print::count(self.dropped));
        }
        add(
            "Attempts that succeeded",
            print::share(self.delivered, self.tried),
        );
        let within = |share| took(self.latency.within_ms(share));
        add("Half of deliveries took", within(0.5));
        add("95 % of deliveries took", within(0.95));
        figures
    }

    fn sentence(&self, range: Range) -> String {
        range.says(&format!(
            "{} delivered, {} dead-lettered, {} dropped",
            print::count(self.delivered),
            print::count(self.dead_lettered),
            print::count(self.dropped)
        ))
    }
}

fn within(latency: &Latency, share: f64) -> String {
    print_bound(latency.within_ms(share))
}

fn print_bound(bound: Option<Bound>) -> String {
    match bound {
        None => "–".to_owned(),
        Some(Bound::Within(ms)) => print::span(Duration::from_millis(ms)),
        Some(Bound::Longer) => "over a day".to_owned(),
    }
}

/// `up to 25 ms`, since only bounds are known; `over a day`.
fn took(bound: Option<Bound>) -> String {
    match bound {
        Some(Bound::Within(_)) => format!("up to {}", print_bound(bound)),
        Some(Bound::Longer) | None => print_bound(bound),
    }
}

impl TrafficRow {
    fn of(slot: &TrafficSlot) -> Self {
        Self {
            from: Moment::at(slot.start_at),
            published: print::count(slot.published),
            attempts: print::count(slot.attempts),
            delivered: print::count(slot.delivered),
            dead_lettered: print::count(slot.dead_lettered),
            dropped: print::count(slot.dropped),
            succeeded: print::share(slot.delivered, slot.tried()),
            half: within(&slot.latency, 0.5),
            most: within(&slot.latency, 0.95),
            waiting: print::count(slot.pending),
        }
    }
}

/// A quiet slot to make others of.
#[cfg(test)]
fn slot(minute: i64) -> TrafficSlot {
    TrafficSlot::empty(Timestamp::from_ms(minute * MINUTE_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(minute: i64, published: u64, delivered: u64, dead_lettered: u64) -> TrafficSlot {
        TrafficSlot {
            published,
            delivered,
            dead_lettered,
            ..slot(minute)
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_the_tallest_fills_the_drawing() {
        let shapes = shapes(&[busy(0, 4, 3, 1), busy(1, 1, 0, 2)], 4, true);
        let seen: Vec<_> = shapes
            .iter()
            .map(|each| (each.class, each.path.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("delivered", "M30 120V30H270V120Z"),
                ("dead-lettered", "M30 30V0H270V30ZM330 120V60H570V120Z"),
                ("dropped", ""),
                ("published", "M0 0V0H300V90H600"),
            ]
        );
    }

    #[test]
    fn nothing_draws_nothing() {
        let now = Timestamp::from_ms(0);
        let drawn = Traffic::draw(&[slot(0)], RANGES[0], true, "/admin", now);
        assert!(drawn.rows.is_empty());
        assert!(drawn.to_string().contains("Nothing happened"), "{drawn}");
        assert!(!drawn.to_string().contains("<svg"), "{drawn}");
    }

    #[test]
    fn what_waits_is_drawn_though_nothing_happens() {
        let mut slots = [slot(0), slot(1)];
        slots[0].pending = 7;
        slots[1].pending = 7;
        let now = Timestamp::from_ms(90_000);
        let drawn = Traffic::draw(&slots, RANGES[0], false, "/admin", now);
        assert_eq!(drawn.rows.len(), 1);
        let drawn = drawn.to_string();
        let said = "aria-label=\"Last 1 hour: at most 7 deliveries waited; now 7 wait.\"";
        assert!(drawn.contains(said), "{drawn}");
        assert!(
            drawn.contains("data-label=\"Waiting at the end\">7</td>"),
            "{drawn}"
        );
    }

    #[test]
    fn an_unknown_range_is_the_first() {
        let choice = |range: &str| RangeChoice {
            range: range.to_owned(),
        };
        assert_eq!(choice("7d").chosen().slots, 42);
        assert_eq!(choice("<script>").chosen(), RANGES[0]);
    }
}
