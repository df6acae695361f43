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
    Range {
        name,
        title,
        step_ms,
        slots,
        step,
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
        let mut finer = RANGES.into_iter().filter(|it| it.step_ms < self.step_ms);
        let chosen = finer.find(|it| slots(it) <= it.slots).unwrap_or(self);
        (chosen, slots(&chosen).min(chosen.slots))
    }

    /// How the beginning of a slot is written.
    fn text(self, at: Timestamp) -> String {
        let pattern = match self.step_ms {
            DAY_MS.. => "%-d %b",
            0..=HOUR_MS => "%H:%M",
            _ => "%-d %b %H:%M",
        };
        Time::by(pattern, at).text()
    }

    /// `21:00–22:00`; for a day its date.
    fn slot(self, slot: &TrafficSlot) -> String {
        let (at, end) = (slot.start_at, slot.start_at.as_ms() + self.step_ms);
        match self.step_ms {
            DAY_MS.. => self.text(at),
            _ => {
                let end = Time::by("%H:%M", Timestamp::from_ms(end)).text();
                format!("{}–{end}", self.text(at))
            }
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
    path: String,
    /// Whether the page has the choice of the range in its head.
    is_chosen_above: bool,
    counts_events: bool,
    chosen: Range,
    range: Range,
    now: Timestamp,
    /// Oldest first.
    pub(crate) slots: Vec<TrafficSlot>,
}

/// How many dead letters there were, hour by hour of the last day.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/dead_letter_chart.html")]
pub(crate) struct DeadLetterChart {
    traffic: Traffic,
}

part!(Traffic, DeadLetterChart);

impl DeadLetterChart {
    /// Of an installation that there is since `since`.
    pub(crate) async fn read(
        site: &Site,
        of: TrafficOf,
        since: Timestamp,
    ) -> Result<Self, StoreError> {
        let traffic = Traffic::read(site, of, &RangeChoice::default(), ("", since)).await?;
        Ok(Self { traffic })
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
        Ok(Self {
            path: path.to_owned(),
            is_chosen_above: of == TrafficOf::Everything,
            counts_events: !matches!(of, TrafficOf::Subscription(_)),
            chosen: choice.chosen(),
            range,
            now,
            slots: site.views.traffic(query).await?,
        })
    }

    /// The ranges to choose from: addresses, titles, and whether it is the chosen one.
    pub(crate) fn ranges(&self) -> [(String, &'static str, bool); 5] {
        RANGES.map(|range| {
            let href = link(&self.path, &[("range", range.name.to_owned())]);
            (href, range.title, range == self.chosen)
        })
    }

    /// How long the slowest took but for one in twenty, slot by slot.
    pub(crate) fn slowest(&self) -> Vec<f64> {
        let slowest = self.within(0.95).into_iter();
        slowest.map(Option::unwrap_or_default).collect()
    }

    fn within(&self, share: f64) -> Vec<Option<f64>> {
        let within = |slot: &TrafficSlot| slot.latency.within_ms(share).map(drawn_ms);
        self.slots.iter().map(within).collect()
    }

    fn most(&self, count: fn(&TrafficSlot) -> u64) -> u64 {
        self.slots.iter().map(count).max().unwrap_or(0)
    }

    /// Five at most, of which the last is now.
    fn times(&self) -> Vec<(f64, String)> {
        let (slots, range) = (&self.slots, self.range);
        let every = slots.len().div_ceil(4).max(1);
        let width = 100.0 / slots.len().max(1) as f64;
        // What would stand under the last word is left out.
        let room = slots.len().saturating_sub(every / 2);
        let starts = slots.iter().enumerate().take(room).step_by(every);
        let starts = starts.map(|(index, slot)| (index as f64 * width, range.text(slot.start_at)));
        starts.chain([(100.0, range.text(self.now))]).collect()
    }

    /// The chart with its times, what is most remarkable, and `say` of each slot.
    fn said(&self, chart: Chart, peak: String, say: impl Fn(&TrafficSlot) -> String) -> Chart {
        let said = |slot| format!("{}: {}", self.range.slot(slot), say(slot));
        chart.saying(self.slots.iter().map(said).collect(), self.times(), peak)
    }

    /// Bars of counts.
    fn bars<const N: usize>(
        &self,
        (id, title, unit): (&'static str, &'static str, &str),
        keys: [Key; N],
        counts: fn(&TrafficSlot) -> [u64; N],
    ) -> Chart {
        let counts = self.slots.iter().map(|slot| counts(slot).to_vec());
        let counts: Vec<_> = counts.collect();
        let most = counts.iter().map(|each| each.iter().sum()).max();
        Chart::new(id, title, unit, Scale::counts(most.unwrap_or(0))).stacked(&keys, &counts)
    }

    /// How attempts ended, which share succeeded, how long deliveries took, and what is left.
    fn charts(&self) -> [Chart; 4] {
        let step = self.range.step;
        let unit = format!("per {step}");
        let attempts = ("chart-attempts", "Delivery attempts", unit.as_str());
        let keys = [Key("good", "", "Succeeded"), Key("bad", "", "Failed")];
        let attempts = self.bars(attempts, keys, |slot| [slot.delivered, failed(slot)]);
        let peak = format!("peak {}", print::count(self.most(TrafficSlot::tried)));
        let attempts = self.said(attempts, peak, |slot| {
            let (delivered, failed) = (print::count(slot.delivered), print::count(failed(slot)));
            format!("{delivered} succeeded, {failed} failed")
        });

        let tried = |slot: &TrafficSlot| Some(slot.tried() as f64).filter(|tried| *tried > 0.0);
        let share = |slot| tried(slot).map(|tried| slot.delivered as f64 * 100.0 / tried);
        let shares: Vec<_> = self.slots.iter().map(share).collect();
        let lowest = shares.iter().flatten().copied().fold(100.0, f64::min);
        let is_any = shares.iter().any(Option::is_some);
        let scale = Scale::percent(lowest);
        let success = Chart::new("chart-success", "Success rate", "% of attempts", scale)
            .line(Key("good", "line", "Succeeded"), &shares);
        let peak = if is_any {
            format!("lowest {lowest:.1} %")
        } else {
            String::new()
        };
        let success = self.said(success, peak, |slot| match slot.tried() {
            0 => "no attempts".to_owned(),
            tried => print::share(slot.delivered, tried),
        });

        let (half, most) = (self.within(0.5), self.within(0.95));
        let least = half
            .iter()
            .flatten()
            .copied()
            .reduce(f64::min)
            .unwrap_or(1.0);
        let longest = most.iter().flatten().copied().fold(0.0, f64::max);
        let unit = "publish to delivered, log scale";
        let scale = Scale::milliseconds(least, longest);
        let latency = Chart::new("chart-latency", "Delivery time", unit, scale)
            .line(Key("accent", "line", "p50"), &half)
            .line(Key("second", "line dash", "p95"), &most);
        let slowest = self
            .slots
            .iter()
            .flat_map(|slot| slot.latency.within_ms(0.95));
        let slowest = slowest.max_by(|a, b| drawn_ms(*a).total_cmp(&drawn_ms(*b)));
        let peak = slowest.map(|it| format!("p95 up to {}", bound(Some(it))));
        let latency = self.said(latency, peak.unwrap_or_default(), |slot| {
            format!("p50 {}, p95 {}", within(slot, 0.5), within(slot, 0.95))
        });

        let most = self.most(|slot| slot.pending);
        let left: Vec<_> = self
            .slots
            .iter()
            .map(|slot| Some(slot.pending as f64))
            .collect();
        let (unit, scale) = (format!("at the end of each {step}"), Scale::counts(most));
        let pending = Chart::new("chart-pending", "Pending deliveries", &unit, scale)
            .line(Key("warn", "line", "Pending"), &left);
        let peak = format!("peak {}", print::count(most));
        let pending = self.said(pending, peak, |slot| {
            format!("{} pending", print::count(slot.pending))
        });
        [attempts, success, latency, pending]
    }

    fn dead_letters(&self) -> Chart {
        let unit = format!("per {}, {}", self.range.step, self.range.title);
        let all = self.slots.iter().map(|slot| slot.dead_lettered).sum();
        let head = ("chart-dead-letters", "New dead letters", unit.as_str());
        let chart = self.bars(head, [Key("bad", "", "Dead-lettered")], |slot| {
            [slot.dead_lettered]
        });
        let peak = format!("{} in {}", print::count(all), self.range.title);
        self.said(chart, peak, |slot| print::count(slot.dead_lettered))
    }
}

fn failed(slot: &TrafficSlot) -> u64 {
    slot.tried() - slot.delivered
}

fn within(slot: &TrafficSlot, share: f64) -> String {
    bound(slot.latency.within_ms(share))
}

/// Where a bound is drawn. What took longer than is told apart is drawn at a week, which is as long as a delivery
/// lives (rule N9).
fn drawn_ms(bound: Bound) -> f64 {
    match bound {
        Bound::Within(ms) => ms as f64,
        Bound::Longer => 604_800_000.0,
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
        let drawn = Traffic {
            path: "/admin".to_owned(),
            is_chosen_above: true,
            counts_events: true,
            chosen: RANGES[0],
            range: RANGES[0],
            now,
            slots,
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
