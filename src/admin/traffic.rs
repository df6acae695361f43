//! What happened when: a chart of the traffic of a topic, of an event subscription or of everything, with
//! its figures and a table of the same numbers.

use std::fmt::Write as _;
use std::time::Duration;

use askama::Template;
use serde::Deserialize;

use crate::admin::view::{Moment, link, part};
use crate::admin::{Site, print};
use crate::base::Timestamp;
use crate::store::StoreError;
use crate::store::views::{Bound, Latency, TrafficOf, TrafficQuery, TrafficSlot};

/// Size of the drawing, in its own units; the page stretches it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// The gap between two bars, as a share of their distance.
const GAP: f64 = 0.2;

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
pub(super) struct RangeChoice {
    #[serde(default)]
    range: String,
}

impl RangeChoice {
    fn chosen(&self) -> Range {
        let named = RANGES.into_iter().find(|range| range.name == self.range);
        named.unwrap_or(RANGES[0])
    }
}

/// The chart with everything around it.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/traffic.html")]
pub(super) struct Traffic {
    ranges: Vec<RangeLink>,
    figures: Vec<Figure>,
    bars: Vec<Bar>,
    /// Points of the line of published events; empty where those are not counted.
    published: String,
    from: Moment,
    until: Moment,
    most: String,
    summary: String,
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

/// A rectangle of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bar {
    class: &'static str,
    x: String,
    y: String,
    width: String,
    height: String,
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
    latency: String,
}

part!(Traffic);

impl Traffic {
    /// Reads what `choice` asks for, for the page at `path`.
    pub(super) async fn read(
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
            bars: bars(slots, most),
            published: match counts_events {
                true => line(slots, most),
                false => String::new(),
            },
            from: Moment::at(slots.first().map_or(now, |slot| slot.start_at)),
            until: Moment::at(now),
            most: print::count(most),
            summary: sum.sentence(range),
            counts_events,
            rows: slots.iter().rev().filter_map(TrafficRow::of).collect(),
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

fn ended(slot: &TrafficSlot) -> u64 {
    slot.delivered + slot.dead_lettered + slot.dropped
}

fn height(slot: &TrafficSlot) -> u64 {
    ended(slot).max(slot.published)
}

/// One stack for each slot: delivered at the bottom, then what was given up.
fn bars(slots: &[TrafficSlot], most: u64) -> Vec<Bar> {
    let distance = WIDTH / slots.len().max(1) as f64;
    let mut bars = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let parts = [
            ("delivered", slot.delivered),
            ("dead-lettered", slot.dead_lettered),
            ("dropped", slot.dropped),
        ];
        let mut below = 0;
        for (class, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
            let (from, to) = (scaled(below, most), scaled(below + count, most));
            bars.push(Bar {
                class,
                x: units(index as f64 * distance + distance * GAP / 2.0),
                y: units(HEIGHT - to),
                width: units(distance * (1.0 - GAP)),
                height: units(to - from),
            });
            below += count;
        }
    }
    bars
}

fn line(slots: &[TrafficSlot], most: u64) -> String {
    let distance = WIDTH / slots.len().max(1) as f64;
    let mut points = String::new();
    for (index, slot) in slots.iter().enumerate() {
        let (x, y) = (
            (index as f64 + 0.5) * distance,
            HEIGHT - scaled(slot.published, most),
        );
        let _ = write!(points, "{},{} ", units(x), units(y));
    }
    points.trim_end().to_owned()
}

fn scaled(count: u64, most: u64) -> f64 {
    count as f64 * HEIGHT / most.max(1) as f64
}

fn units(length: f64) -> String {
    format!("{length:.1}")
}

/// All slots together.
#[derive(Default)]
struct Sum {
    published: u64,
    unmatched: u64,
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
    attempts: u64,
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
            attempts: sum.attempts + slot.attempts,
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
            share(self.delivered, self.attempts),
        );
        add("Half delivered within", within(&self.latency, 0.5));
        add("95 % delivered within", within(&self.latency, 0.95));
        figures
    }

    fn sentence(&self, range: Range) -> String {
        format!(
            "Last {}: {} delivered, {} dead-lettered, {} dropped.",
            range.title,
            print::count(self.delivered),
            print::count(self.dead_lettered),
            print::count(self.dropped)
        )
    }
}

/// `98.5 %`, or a dash where nothing was tried.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ if part >= whole => "100 %".to_owned(),
        // What is not all must not look like it.
        _ => format!("{:.1} %", (part as f64 * 100.0 / whole as f64).min(99.9)),
    }
}

fn within(latency: &Latency, share: f64) -> String {
    match latency.within_ms(share) {
        None => "–".to_owned(),
        Some(Bound::Within(ms)) => print::span(Duration::from_millis(ms)),
        Some(Bound::Longer) => "over 1 h".to_owned(),
    }
}

impl TrafficRow {
    /// `None` for a slot in which nothing happened.
    fn of(slot: &TrafficSlot) -> Option<Self> {
        (height(slot) + slot.attempts > 0).then(|| Self {
            from: Moment::at(slot.start_at),
            published: print::count(slot.published),
            attempts: print::count(slot.attempts),
            delivered: print::count(slot.delivered),
            dead_lettered: print::count(slot.dead_lettered),
            dropped: print::count(slot.dropped),
            latency: within(&slot.latency, 0.95),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(minute: i64, published: u64, delivered: u64, dead_lettered: u64) -> TrafficSlot {
        TrafficSlot {
            start_at: Timestamp::from_ms(minute * MINUTE_MS),
            published,
            unmatched: 0,
            bytes: 0,
            matched: published,
            delivered,
            dead_lettered,
            dropped: 0,
            attempts: delivered + dead_lettered,
            latency: Latency::default(),
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_the_tallest_fills_the_drawing() {
        let bars = bars(&[slot(0, 4, 3, 1), slot(1, 0, 0, 2)], 4);
        let seen: Vec<_> = bars
            .iter()
            .map(|bar| {
                (
                    bar.class,
                    bar.x.as_str(),
                    bar.y.as_str(),
                    bar.height.as_str(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("delivered", "30.0", "30.0", "90.0"),
                ("dead-lettered", "30.0", "0.0", "30.0"),
                ("dead-lettered", "330.0", "60.0", "60.0"),
            ]
        );
        assert_eq!(
            line(&[slot(0, 4, 0, 0), slot(1, 1, 0, 0)], 4),
            "150.0,0.0 450.0,90.0"
        );
    }

    #[test]
    fn nothing_draws_nothing() {
        let now = Timestamp::from_ms(0);
        let drawn = Traffic::draw(&[slot(0, 0, 0, 0)], RANGES[0], true, "/admin", now);
        assert!(drawn.bars.is_empty() && drawn.rows.is_empty());
        assert!(drawn.to_string().contains("Nothing happened"), "{drawn}");
    }

    #[test]
    fn shares_never_round_up_to_all() {
        for (part, whole, expected) in [
            (0, 0, "–"),
            (0, 7, "0.0 %"),
            (9_999, 10_000, "99.9 %"),
            (1, 2, "50.0 %"),
            (3, 3, "100 %"),
        ] {
            assert_eq!(share(part, whole), expected);
        }
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
