//! Charts of the traffic of a topic, of an event subscription or of everything, with a table of the same numbers.

use std::time::Duration;

use askama::Template;
use serde::Deserialize;

use crate::admin::lists::link;
use crate::admin::site::Site;
use crate::admin::widgets::chart::{Chart, Scale, Series};
use crate::admin::widgets::{Icon, Time, filters, part, print};
use crate::base::Timestamp;
use crate::store::StoreError;
use crate::store::views::{Bound, TrafficOf, TrafficQuery, TrafficSlot};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Shortest time that a chart shows, however new the installation is.
const SHORTEST_MS: i64 = 15 * MINUTE_MS;

/// Time range of the charts. Its slots are no shorter than the interval by which counters of that age are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// In the address.
    name: &'static str,
    pub(crate) title: &'static str,
    step_ms: i64,
    slots: i64,
    /// The length of one slot in words.
    step: &'static str,
}

#[rustfmt::skip] // a table
const RANGES: [Range; 5] = [
    Range { name: "1h", title: "1 h", step_ms: MINUTE_MS, slots: 60, step: "minute" },
    Range { name: "6h", title: "6 h", step_ms: 10 * MINUTE_MS, slots: 36, step: "10 minutes" },
    Range { name: "24h", title: "24 h", step_ms: HOUR_MS, slots: 24, step: "hour" },
    Range { name: "7d", title: "7 d", step_ms: 4 * HOUR_MS, slots: 42, step: "4 hours" },
    Range { name: "30d", title: "30 d", step_ms: DAY_MS, slots: 30, step: "day" },
];

impl Range {
    /// Returns the range to draw for the time since `since`, and its number of slots. Chooses a range with shorter
    /// slots if that time fits into it.
    fn since(self, since: Timestamp, now: Timestamp) -> (Self, i64) {
        let since_ms = since.as_ms().min(now.as_ms() - SHORTEST_MS);
        // A slot begins at a multiple of its length, and the slot that contains the beginning counts, too.
        let slots = |range: &Self| {
            now.as_ms().div_euclid(range.step_ms) - since_ms.div_euclid(range.step_ms) + 1
        };
        let mut finer = RANGES.into_iter().filter(|it| it.step_ms < self.step_ms);
        let chosen = finer.find(|it| slots(it) <= it.slots).unwrap_or(self);
        (chosen, slots(&chosen).min(chosen.slots))
    }

    /// Formats the beginning of a slot: its date, its time of day or both, by the length of the slots.
    fn text(self, at: Timestamp) -> String {
        let pattern = match self.step_ms {
            DAY_MS.. => "%-d %b",
            0..=HOUR_MS => "%H:%M",
            _ => "%-d %b %H:%M",
        };
        Time::by(pattern, at).text()
    }

    /// Formats a slot by its beginning and end (`21:00–22:00`), or by its date if it lasts a day.
    pub(crate) fn slot(self, slot: &TrafficSlot) -> String {
        let (at, end_ms) = (slot.start_at, slot.start_at.as_ms() + self.step_ms);
        let end = Time::by("–%H:%M", Timestamp::from_ms(end_ms)).text();
        self.text(at) + if self.step_ms < DAY_MS { &end } else { "" }
    }
}

/// Query parameter in the URL of a page that chooses the range.
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

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/traffic.html")]
pub(crate) struct TrafficCharts {
    path: String,
    of: TrafficOf,
    chosen: Range,
    pub(crate) range: Range,
    since: Timestamp,
    now: Timestamp,
    pub(crate) slots: Vec<TrafficSlot>,
    is_pulled: bool,
}

part!(TrafficCharts);

/// Data series of a chart: its colour, its shape, its label, and its value in a slot.
type Drawn = (
    &'static str,
    &'static str,
    &'static str,
    fn(&TrafficSlot) -> Option<f64>,
);

/// Definition of a chart: `drawn` has its data series, `head` returns its unit, its scale and its peak, and `say`
/// describes a slot in words.
struct ChartPlan {
    id: &'static str,
    title: &'static str,
    drawn: &'static [Drawn],
    head: fn(&TrafficCharts) -> (String, Scale, String),
    say: fn(&TrafficSlot) -> String,
}

/// Charts of the results of delivery attempts, the success rate, the delivery time and the pending deliveries.
#[rustfmt::skip] // a table
const CHARTS: [ChartPlan; 4] = [
    ChartPlan {
        id: "chart-attempts",
        title: "Delivery attempts",
        drawn: &[
            ("good", "", "Succeeded", |slot| Some(slot.delivered as f64)),
            ("bad", "", "Failed", |slot| Some(failed(slot) as f64)),
        ],
        head: |it| counted(format!("per {}", it.range.step), it.most(TrafficSlot::tried)),
        say: |slot| format!("{} succeeded, {} failed", print::count(slot.delivered), print::count(failed(slot))),
    },
    ChartPlan {
        id: "chart-success",
        title: "Success rate",
        drawn: &[("accent", "line", "Succeeded", share)],
        head: |it| {
            let lowest = it.slots.iter().filter_map(share).reduce(f64::min);
            let below = lowest.filter(|lowest| *lowest < 100.0);
            let peak = below.map(|lowest| format!("lowest {lowest:.1} %")).unwrap_or_default();
            ("% of attempts".to_owned(), Scale::percent(lowest.unwrap_or(100.0)), peak)
        },
        say: |slot| match slot.tried() { 0 => "no attempts".to_owned(), tried => print::share(slot.delivered, tried) },
    },
    ChartPlan {
        id: "chart-latency",
        title: "Delivery time",
        drawn: &[
            ("accent", "line", "p50", |slot| drawn_ms(slot, 0.5)),
            ("second", "line dash", "p95", |slot| drawn_ms(slot, 0.95)),
        ],
        head: |it| {
            let fastest = it.slots.iter().filter_map(|slot| drawn_ms(slot, 0.5)).reduce(f64::min);
            let slowest = it.slots.iter().filter_map(|slot| slot.latency.within_ms(0.95)).max();
            let peak = slowest.map(|_| format!("highest p95 {}", bound(slowest))).unwrap_or_default();
            let scale = Scale::milliseconds(fastest.unwrap_or(1.0), slowest.map_or(0.0, in_ms));
            ("publish to delivered, log scale".to_owned(), scale, peak)
        },
        say: |slot| format!("p50 {}, p95 {}", within(slot, 0.5), within(slot, 0.95)),
    },
    ChartPlan {
        id: "chart-pending",
        title: "Pending deliveries",
        drawn: &[("warn", "line", "Pending", |slot| Some(slot.pending as f64))],
        head: |it| counted(format!("at the end of each {}", it.range.step), it.most(|slot| slot.pending)),
        say: |slot| format!("{} pending", print::count(slot.pending)),
    },
];

/// Charts that replace the first two of [`CHARTS`] where receivers pull the events: an event that is not acknowledged,
/// or not yet, is not a failure.
#[rustfmt::skip] // as those above
const PULLED: [ChartPlan; 2] = [
    ChartPlan {
        title: "Received events",
        drawn: &[
            ("good", "", "Acknowledged", |slot| Some(slot.delivered as f64)),
            ("warn", "", "Not acknowledged", |slot| Some(failed(slot) as f64)),
        ],
        say: |slot| format!("{} acknowledged, {} not", print::count(slot.delivered), print::count(failed(slot))),
        ..CHARTS[0]
    },
    ChartPlan {
        title: "Acknowledged",
        drawn: &[("accent", "line", "Acknowledged", share)],
        head: |it| {
            let (_, scale, peak) = (CHARTS[1].head)(it);
            ("% of received events".to_owned(), scale, peak)
        },
        ..CHARTS[1]
    },
];

#[rustfmt::skip] // as those above
const DEAD_LETTERS: ChartPlan = ChartPlan {
    id: "chart-dead-letters",
    title: "New dead letters",
    drawn: &[("bad", "", "Dead-lettered", |slot| Some(slot.dead_lettered as f64))],
    head: |it| {
        let new = print::count(TrafficSlot::sum(&it.slots).dead_lettered);
        let scale = Scale::counts(it.most(|slot| slot.dead_lettered));
        (format!("per {}", it.range.step), scale, format!("{new} new"))
    },
    say: |slot| print::count(slot.dead_lettered),
};

fn counted(unit: String, most: u64) -> (String, Scale, String) {
    let peak = Some(most)
        .filter(|most| *most > 0)
        .map(|most| format!("peak {}", print::count(most)))
        .unwrap_or_default();
    (unit, Scale::counts(most), peak)
}

impl TrafficCharts {
    /// Reads the traffic of `of` in the range that `choice` selects, for the page at `path`. `since` is the moment
    /// since which there is something to count.
    pub(crate) async fn read(
        site: &Site,
        of: TrafficOf,
        choice: &RangeChoice,
        path: &str,
        since: Timestamp,
    ) -> Result<Self, StoreError> {
        let now = site.broker.clock().now();
        let (range, count) = choice.chosen().since(since, now);
        let query = TrafficQuery::until(now, of, range.step_ms, count);
        Ok(Self {
            path: path.to_owned(),
            of,
            chosen: choice.chosen(),
            range,
            since,
            now,
            slots: site.views.traffic(query).await?,
            is_pulled: false,
        })
    }

    /// Sets whether receivers pull the events: the charts of pulled events differ from those of pushed ones.
    pub(crate) fn pulled(self, is_pulled: bool) -> Self {
        Self { is_pulled, ..self }
    }

    /// Returns the ranges to choose from, each with its URL, its title, and whether it is the chosen one.
    pub(crate) fn ranges(&self) -> [(String, &'static str, bool); 5] {
        RANGES.map(|range| {
            let href = link(&self.path, &[("range", range.name.to_owned())]);
            (href, range.title, range == self.chosen)
        })
    }

    /// Returns the 95th percentile of the delivery time in each slot, in milliseconds; 0 for a slot without deliveries.
    pub(crate) fn slowest(&self) -> Vec<f64> {
        let slowest = self.slots.iter().map(|slot| drawn_ms(slot, 0.95));
        slowest.map(Option::unwrap_or_default).collect()
    }

    /// Returns the slots of the table, the newest first, without those that ended before there was anything to count.
    fn recorded(&self) -> impl Iterator<Item = &TrafficSlot> {
        let begins = self.since.as_ms() - self.range.step_ms;
        let slots = self.slots.iter().rev();
        slots.take_while(move |slot| slot.start_at.as_ms() > begins)
    }

    fn most(&self, count: fn(&TrafficSlot) -> u64) -> u64 {
        self.slots.iter().map(count).max().unwrap_or(0)
    }

    /// Returns the labels of the time axis, each with its position in percent of the axis: five at most, the last of
    /// which is the present time.
    fn times(&self) -> Vec<(f64, String)> {
        let (slots, range) = (&self.slots, self.range);
        let every = slots.len().div_ceil(4).max(1);
        let width = 100.0 / slots.len().max(1) as f64;
        // Labels that would overlap the last one are left out.
        let room = slots.len().saturating_sub(every / 2);
        let starts = slots
            .iter()
            .enumerate()
            .take(room)
            .step_by(every)
            .map(|(index, slot)| (index as f64 * width, range.text(slot.start_at)));
        starts.chain([(100.0, range.text(self.now))]).collect()
    }

    /// Reports whether no slot has any attempt, pending delivery, dead letter or dropped event.
    pub(crate) fn is_idle(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| slot.tried() + slot.pending + slot.dead_lettered + slot.dropped == 0)
    }

    fn charts(&self) -> [Chart; 4] {
        let [first, second, third, fourth] = &CHARTS;
        let [received, acknowledged] = &PULLED;
        let plans = if self.is_pulled {
            [received, acknowledged, third, fourth]
        } else {
            [first, second, third, fourth]
        };
        plans.map(|plan| self.chart(plan))
    }

    pub(crate) fn dead_letters(&self) -> Chart {
        self.chart(&DEAD_LETTERS)
    }

    fn chart(&self, plan: &ChartPlan) -> Chart {
        let series = plan.drawn.iter().map(|(class, shape, label, value)| {
            Series(class, shape, label, self.slots.iter().map(value).collect())
        });
        let said = |slot| format!("{}: {}", self.range.slot(slot), (plan.say)(slot));
        let (unit, scale, peak) = (plan.head)(self);
        Chart {
            id: plan.id,
            title: plan.title,
            unit,
            scale,
            series: series.collect(),
            said: self.slots.iter().map(said).collect(),
            times: self.times(),
            peak,
        }
    }
}

/// Returns the percentage of attempts that succeeded; `None` if there were no attempts.
fn share(slot: &TrafficSlot) -> Option<f64> {
    (slot.tried() > 0).then(|| slot.delivered as f64 * 100.0 / slot.tried() as f64)
}

fn failed(slot: &TrafficSlot) -> u64 {
    slot.tried() - slot.delivered
}

fn within(slot: &TrafficSlot, share: f64) -> String {
    bound(slot.latency.within_ms(share))
}

fn drawn_ms(slot: &TrafficSlot, share: f64) -> Option<f64> {
    slot.latency.within_ms(share).map(in_ms)
}

/// Returns the bound in milliseconds. A time above the highest bound is drawn as a week, the longest time that a
/// delivery can live (rule N1.1).
fn in_ms(bound: Bound) -> f64 {
    match bound {
        Bound::Within(ms) => ms as f64,
        Bound::Longer => 604_800_000.0,
    }
}

/// Formats an upper bound of a delivery time: `≤ 25 ms`, since only the bounds of histogram buckets are known;
/// `over a day` if it is above the highest bound; a dash where nothing was delivered.
pub(crate) fn bound(bound: Option<Bound>) -> String {
    match bound {
        None => "–".to_owned(),
        // A no-break space keeps the sign and the number on one line.
        Some(Bound::Within(ms)) => format!("≤\u{a0}{}", print::span(Duration::from_millis(ms))),
        Some(Bound::Longer) => "over a day".to_owned(),
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
        let sum = TrafficSlot {
            delivered: 62_322,
            dead_lettered: 37,
            ..TrafficSlot::default()
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
        let drawn = TrafficCharts {
            path: "/admin".to_owned(),
            of: TrafficOf::Everything,
            chosen: RANGES[0],
            range: RANGES[0],
            since: Timestamp::from_ms(0),
            now,
            slots,
            is_pulled: false,
        };
        let drawn = drawn.to_string();
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
