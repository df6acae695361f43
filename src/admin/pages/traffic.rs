//! What happened when: charts of the traffic of a topic, of an event subscription or of everything, with a table
//! of the same numbers.

use serde::Deserialize;

use crate::admin::page::*;
use crate::admin::widgets::chart::{Chart, Key, Scale};
use crate::store::StoreError;
use crate::store::views::{Bound, Latency, TrafficOf, TrafficQuery, TrafficSlot};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// No chart shows less, however new the installation is.
const SHORTEST_MS: i64 = 15 * MINUTE_MS;

/// How far back charts reach. Steps are no finer than what counters are kept by at that age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// In the address.
    name: &'static str,
    pub(crate) title: &'static str,
    step_ms: i64,
    slots: i64,
    /// What one slot is called.
    step: &'static str,
    /// How its beginning is written.
    clock: &'static str,
}

const RANGES: [Range; 5] = [
    range("1h", "1 h", MINUTE_MS, 60, "minute"),
    range("6h", "6 h", 10 * MINUTE_MS, 36, "10 minutes"),
    range("24h", "24 h", HOUR_MS, 24, "hour"),
    range("7d", "7 d", 4 * HOUR_MS, 42, "4 hours"),
    range("30d", "30 d", DAY_MS, 30, "day"),
];

const fn range(
    name: &'static str,
    title: &'static str,
    step_ms: i64,
    slots: i64,
    step: &'static str,
) -> Range {
    let clock = match step_ms {
        DAY_MS.. => "%e %b",
        0..=HOUR_MS => "%H:%M",
        _ => "%e %b %H:%M",
    };
    Range {
        name,
        title,
        step_ms,
        slots,
        step,
        clock,
    }
}

impl Range {
    /// As much of it as there has been since `since`, in finer steps where that is little.
    fn since(self, since: Timestamp, now: Timestamp) -> (Self, i64) {
        let since = since.as_ms().min(now.as_ms() - SHORTEST_MS);
        // Slots begin at full steps, and that of the beginning is one of them.
        let slots = |range: &Self| {
            now.as_ms().div_euclid(range.step_ms) - since.div_euclid(range.step_ms) + 1
        };
        let is_enough = |range: &&Self| slots(range) <= range.slots;
        let fitting = RANGES.iter().find(is_enough).copied().unwrap_or(self);
        let chosen = match fitting.step_ms < self.step_ms {
            true => fitting,
            false => self,
        };
        (chosen, slots(&chosen).min(chosen.slots))
    }

    fn text(&self, at: Timestamp) -> String {
        let text = Time::by(self.clock, at).text();
        text.trim_start().to_owned()
    }

    /// `21:00–22:00`; for a day its date.
    fn slot(self, at: Timestamp) -> String {
        let end = Timestamp::from_ms(at.as_ms() + self.step_ms);
        match self.step_ms {
            DAY_MS.. => self.text(at),
            _ => format!("{}–{}", self.text(at), Time::by("%H:%M", end).text()),
        }
    }
}

/// The part of an address that chooses the range.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RangeChoice {
    #[serde(default)]
    range: String,
}

impl RangeChoice {
    pub(crate) fn chosen(&self) -> Range {
        let named = RANGES.into_iter().find(|range| range.name == self.range);
        named.unwrap_or(RANGES[2])
    }
}

/// The charts with everything around them.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/traffic.html")]
pub(crate) struct Traffic {
    pub(crate) ranges: RangeLinks,
    /// Whether the page has the choice of the range elsewhere.
    pub(crate) is_chosen_above: bool,
    range: Range,
    from: Timestamp,
    pub(crate) sum: Sum,
    charts: [Chart; 4],
    counts_events: bool,
    /// Oldest first.
    pub(crate) slots: Vec<TrafficSlot>,
}

/// The choice of a range, as links.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "<nav class=\"segments\" aria-label=\"Time range\">{% for (href, title, current) in links %}\
              <a href=\"{{ href }}\"{% if *current %} aria-current=\"true\"{% endif %}>{{ title }}</a>\
              {% endfor %}</nav>"
)]
pub(crate) struct RangeLinks {
    links: Vec<(String, &'static str, bool)>,
}

part!(Traffic, RangeLinks, DeadLetterChart);

/// How many dead letters there were, hour by hour of the last day.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/dead_letter_chart.html")]
pub(crate) struct DeadLetterChart {
    chart: Chart,
    range: Range,
    slots: Vec<TrafficSlot>,
}

impl DeadLetterChart {
    /// Of an installation that there is since `since`.
    pub(crate) async fn read(
        site: &Site,
        of: TrafficOf,
        since: Timestamp,
    ) -> Result<Self, StoreError> {
        let now = site.broker.clock().now();
        let (range, count) = RangeChoice::default().chosen().since(since, now);
        let query = TrafficQuery::until(now, of, range.step_ms, count);
        let slots = site.views.traffic(query).await?;
        let times = times(&slots, range, now);
        let count = |slot: &TrafficSlot| slot.dead_lettered;
        let (most, sum) = (slots.iter().map(count).max(), slots.iter().map(count).sum());
        let scale = Scale::counts(most.unwrap_or(0));
        let key = Key {
            class: "bad",
            shape: "",
            label: "Dead-lettered",
        };
        let counts: Vec<_> = slots.iter().map(|slot| vec![count(slot)]).collect();
        let said = slots.iter().map(|slot| {
            let count = print::count(count(slot));
            format!("{}: {count}", range.slot(slot.start_at))
        });
        let chart = Chart::new(
            "chart-dead-letters",
            "New dead letters",
            format!("per {}, {}", range.step, range.title),
        )
        .on(&scale)
        .stacked(&scale, &[key], &counts)
        .saying(
            said.collect(),
            &times,
            format!("{} in {}", print::count(sum), range.title),
        );
        Ok(Self {
            chart,
            range,
            slots,
        })
    }

    fn slot(&self, slot: &TrafficSlot) -> String {
        self.range.slot(slot.start_at)
    }
}

impl Traffic {
    /// Reads what `choice` asks for of something that there is since `since`, for the page at `path`.
    pub(crate) async fn read(
        site: &Site,
        of: TrafficOf,
        choice: &RangeChoice,
        (path, since): (&str, Timestamp),
    ) -> Result<Self, StoreError> {
        let now = site.broker.clock().now();
        let (range, count) = choice.chosen().since(since, now);
        let query = TrafficQuery::until(now, of, range.step_ms, count);
        let slots = site.views.traffic(query).await?;
        let counts_events = !matches!(of, TrafficOf::Subscription(_));
        Ok(Self::draw(
            slots,
            range,
            counts_events,
            (path, choice.chosen(), now),
        ))
    }

    fn draw(
        slots: Vec<TrafficSlot>,
        range: Range,
        counts_events: bool,
        (path, chosen, now): (&str, Range, Timestamp),
    ) -> Self {
        let links = RANGES.into_iter().map(|each| {
            let href = link(path, &[("range", each.name.to_owned())]);
            (href, each.title, each == chosen)
        });
        Self {
            ranges: RangeLinks {
                links: links.collect(),
            },
            is_chosen_above: false,
            range,
            from: slots.first().map_or(now, |slot| slot.start_at),
            sum: Sum::of(&slots),
            charts: charts(&slots, range, now),
            counts_events,
            slots,
        }
    }

    /// The same where the page has the choice of the range above.
    pub(crate) fn chosen_above(self) -> Self {
        Self {
            is_chosen_above: true,
            ..self
        }
    }

    /// `21 Nov 22:00`.
    fn from(&self) -> String {
        let pattern = match self.range.step_ms {
            DAY_MS.. => "%-d %b",
            _ => "%-d %b %H:%M",
        };
        Time::by(pattern, self.from).text()
    }

    /// How long the slowest took but for one in twenty, slot by slot.
    pub(crate) fn slowest(&self) -> Vec<f64> {
        let within = |slot: &TrafficSlot| slot.latency.within_ms(0.95).map_or(0.0, drawn_ms);
        self.slots.iter().map(within).collect()
    }

    fn failed(&self, slot: &TrafficSlot) -> u64 {
        failed(slot)
    }

    fn share(slot: &TrafficSlot) -> String {
        print::share(slot.delivered, slot.tried())
    }

    fn within(slot: &TrafficSlot, share: f64) -> String {
        bound(slot.latency.within_ms(share))
    }
}

fn charts(slots: &[TrafficSlot], range: Range, now: Timestamp) -> [Chart; 4] {
    let times = times(slots, range, now);
    [
        attempts(slots, range, &times),
        success(slots, range, &times),
        latency(slots, range, &times),
        pending(slots, range, &times),
    ]
}

/// Five at most, of which the last is now.
fn times(slots: &[TrafficSlot], range: Range, now: Timestamp) -> Vec<(f64, String)> {
    let every = slots.len().div_ceil(4).max(1);
    let width = 100.0 / slots.len().max(1) as f64;
    // What would stand under the last word is left out.
    let room = slots.len().saturating_sub(every / 2);
    let starts = slots.iter().enumerate().take(room).step_by(every);
    let starts = starts.map(|(index, slot)| (index as f64 * width, range.text(slot.start_at)));
    starts.chain([(100.0, range.text(now))]).collect()
}

const SUCCEEDED: Key = Key {
    class: "good",
    shape: "",
    label: "Succeeded",
};
const FAILED: Key = Key {
    class: "bad",
    shape: "",
    label: "Failed",
};

fn attempts(slots: &[TrafficSlot], range: Range, times: &[(f64, String)]) -> Chart {
    let most = slots.iter().map(TrafficSlot::tried).max().unwrap_or(0);
    let scale = Scale::counts(most);
    let counts = slots.iter().map(|slot| vec![slot.delivered, failed(slot)]);
    let said = slots.iter().map(|slot| {
        let (delivered, failed) = (print::count(slot.delivered), print::count(failed(slot)));
        format!(
            "{}: {delivered} succeeded, {failed} failed",
            range.slot(slot.start_at)
        )
    });
    Chart::new(
        "chart-attempts",
        "Delivery attempts",
        format!("per {}", range.step),
    )
    .on(&scale)
    .stacked(&scale, &[SUCCEEDED, FAILED], &counts.collect::<Vec<_>>())
    .saying(
        said.collect(),
        times,
        format!("peak {}", print::count(most)),
    )
}

fn failed(slot: &TrafficSlot) -> u64 {
    slot.tried() - slot.delivered
}

fn success(slots: &[TrafficSlot], range: Range, times: &[(f64, String)]) -> Chart {
    let share = |slot: &TrafficSlot| {
        let tried = slot.tried();
        (tried > 0).then(|| slot.delivered as f64 * 100.0 / tried as f64)
    };
    let values: Vec<Option<f64>> = slots.iter().map(share).collect();
    let lowest = values.iter().flatten().copied().fold(100.0, f64::min);
    let scale = Scale::percent(lowest);
    let said = slots.iter().map(|slot| match slot.tried() {
        0 => format!("{}: no attempts", range.slot(slot.start_at)),
        _ => format!("{}: {}", range.slot(slot.start_at), Traffic::share(slot)),
    });
    let peak = match values.iter().any(Option::is_some) {
        true => format!("lowest {lowest:.1} %"),
        false => String::new(),
    };
    let key = Key {
        shape: "line",
        ..SUCCEEDED
    };
    Chart::new("chart-success", "Success rate", "% of attempts".to_owned())
        .on(&scale)
        .line(&scale, key, &values)
        .saying(said.collect(), times, peak)
}

fn latency(slots: &[TrafficSlot], range: Range, times: &[(f64, String)]) -> Chart {
    let bounds = |share: f64| slots.iter().map(move |slot| slot.latency.within_ms(share));
    let drawn = |share: f64| {
        bounds(share)
            .map(|bound| bound.map(drawn_ms))
            .collect::<Vec<_>>()
    };
    let (half, most) = (drawn(0.5), drawn(0.95));
    let least = half.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let longest = most.iter().flatten().copied().fold(0.0, f64::max);
    let scale = Scale::milliseconds(if least.is_finite() { least } else { 1.0 }, longest);
    let said = slots.iter().map(|slot| {
        let (half, most) = (Traffic::within(slot, 0.5), Traffic::within(slot, 0.95));
        format!("{}: p50 {half}, p95 {most}", range.slot(slot.start_at))
    });
    let slowest = bounds(0.95)
        .flatten()
        .max_by(|a, b| drawn_ms(*a).total_cmp(&drawn_ms(*b)));
    let line = |class, shape, label| Key {
        class,
        shape,
        label,
    };
    Chart::new(
        "chart-latency",
        "Delivery time",
        "publish to delivered, log scale".to_owned(),
    )
    .on(&scale)
    .line(&scale, line("accent", "line", "p50"), &half)
    .line(&scale, line("second", "line dash", "p95"), &most)
    .saying(
        said.collect(),
        times,
        slowest.map_or_else(String::new, |slowest| {
            format!("p95 up to {}", bound(Some(slowest)))
        }),
    )
}

fn pending(slots: &[TrafficSlot], range: Range, times: &[(f64, String)]) -> Chart {
    let most = slots.iter().map(|slot| slot.pending).max().unwrap_or(0);
    let scale = Scale::counts(most);
    let values: Vec<_> = slots.iter().map(|slot| Some(slot.pending as f64)).collect();
    let said = slots.iter().map(|slot| {
        let pending = print::count(slot.pending);
        format!("{}: {pending} pending", range.slot(slot.start_at))
    });
    let key = Key {
        class: "warn",
        shape: "line",
        label: "Pending",
    };
    let unit = format!("at the end of each {}", range.step);
    Chart::new("chart-pending", "Pending deliveries", unit)
        .on(&scale)
        .line(&scale, key, &values)
        .saying(
            said.collect(),
            times,
            format!("peak {}", print::count(most)),
        )
}

/// Where those are drawn that took longer than is told apart: a week, which is as long as a delivery lives
/// (rule N9).
const LONGER_MS: f64 = 604_800_000.0;

fn drawn_ms(bound: Bound) -> f64 {
    match bound {
        Bound::Within(ms) => ms as f64,
        Bound::Longer => LONGER_MS,
    }
}

/// `25 ms`, `over a day`, or a dash where nothing was delivered.
pub(crate) fn bound(bound: Option<Bound>) -> String {
    match bound {
        None => "–".to_owned(),
        Some(Bound::Within(ms)) => print::span(Duration::from_millis(ms)),
        Some(Bound::Longer) => "over a day".to_owned(),
    }
}

/// All slots together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) published: u64,
    pub(crate) unmatched: u64,
    pub(crate) delivered: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) dropped: u64,
    pub(crate) tried: u64,
    pub(crate) latency: Latency,
}

impl Sum {
    pub(crate) fn of(slots: &[TrafficSlot]) -> Self {
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

    /// What should have been delivered: what ended, and the `pending` that has not yet, so that a backlog
    /// lowers the share of what was delivered.
    pub(crate) fn due(&self, pending: u64) -> u64 {
        self.delivered + self.dead_lettered + self.dropped + pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(minute: i64) -> TrafficSlot {
        TrafficSlot::empty(Timestamp::from_ms(minute * MINUTE_MS))
    }

    #[test]
    fn a_new_installation_shows_the_time_that_it_has() {
        let now = Timestamp::from_ms(100 * DAY_MS);
        let day = RANGES[2];
        for (age_ms, name, slots) in [
            (MINUTE_MS, "1h", 16),
            (20 * MINUTE_MS, "1h", 21),
            (2 * HOUR_MS, "6h", 13),
            (23 * HOUR_MS, "24h", 24),
            (40 * DAY_MS, "24h", 24),
        ] {
            let since = Timestamp::from_ms(now.as_ms() - age_ms);
            let (range, count) = day.since(since, now);
            assert_eq!((range.name, count), (name, slots), "{age_ms}");
        }
        // The first minute is not over when it is left.
        let (since, now_later) = (now.as_ms() - 30_000, now.as_ms() + 46 * MINUTE_MS + 10_000);
        let later = day.since(Timestamp::from_ms(since), Timestamp::from_ms(now_later));
        assert_eq!((later.0.name, later.1), ("1h", 48));
        let hour = RANGES[0].since(Timestamp::from_ms(now.as_ms() - HOUR_MS * 3), now);
        assert_eq!((hour.0.name, hour.1), ("1h", 60));
    }

    #[test]
    fn what_is_held_back_lowers_the_share_of_what_is_delivered() {
        let sum = Sum {
            delivered: 62_322,
            dead_lettered: 37,
            ..Sum::default()
        };
        assert_eq!(sum.due(1_394), 63_753);
    }

    #[test]
    fn every_slot_is_said_in_words() {
        let mut slots = vec![slot(0), slot(1)];
        slots[0].attempts = 4;
        slots[0].delivered = 3;
        slots[1].pending = 2;
        let now = Timestamp::from_ms(90_000);
        let drawn = Traffic::draw(slots, RANGES[0], true, ("/admin", RANGES[0], now)).to_string();
        for words in [
            "00:00–00:01: 3 succeeded, 1 failed",
            "00:00–00:01: 75.0 %",
            "00:01–00:02: no attempts",
            "00:01–00:02: p50 –, p95 –",
            "00:01–00:02: 2 pending",
            "lowest 75.0 %",
            "axis from 60 %",
        ] {
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
    }

    #[test]
    fn an_unknown_range_is_a_day() {
        let choice = |range: &str| RangeChoice {
            range: range.to_owned(),
        };
        assert_eq!(choice("7d").chosen().slots, 42);
        assert_eq!(choice("<script>").chosen(), RANGES[2]);
    }
}
