//! Charts: one unit each, with an axis of round values, times below, and every value in words. `x` is in per
//! cent of the width and `y` in pixels, so that a chart fits any page and its text never scales.

use std::fmt::Write as _;

use askama::Template;

use crate::admin::widgets::part;

/// Where the drawing begins below the line of words, and how much room the times have below it.
const TOP: f64 = 18.0;
const FOOT: f64 = 18.0;

/// Bars are never lower than this: what happened must be seen, however much more happened elsewhere.
const LOWEST_BAR: f64 = 1.0;

/// How high a chart is.
const HEIGHT: f64 = 140.0;

/// A chart, ready to be drawn.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/chart.html")]
pub(crate) struct Chart {
    id: &'static str,
    title: &'static str,
    unit: String,
    scale: Scale,
    keys: Vec<Key>,
    bars: Vec<Bar>,
    curves: Vec<Curve>,
    /// Words below, and where they stand.
    times: Vec<(f64, String)>,
    /// What is most remarkable.
    peak: String,
    /// Each slot in words.
    said: Vec<String>,
}

part!(Chart);

/// What is drawn how: a colour of the stylesheet; `line dash`, `line`, or nothing for a bar; what it is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) &'static str,
);

#[derive(Clone, Debug)]
struct Bar {
    class: &'static str,
    x: f64,
    width: f64,
    y: f64,
    height: f64,
    /// Its slot has not ended.
    is_part: bool,
}

#[derive(Clone, Debug)]
struct Curve {
    key: Key,
    line: String,
    /// What lies below it; empty for an axis that does not begin at nothing.
    area: String,
}

/// From the value at the foot of the axis to the one at its top.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    ticks: Vec<(f64, String)>,
    is_logarithmic: bool,
}

impl Scale {
    /// Counts from 0 to at least `most`, in three round steps.
    pub(crate) fn counts(most: u64) -> Self {
        let step = round_up(most as f64 / 3.0);
        let ticks = (0..=3).map(|tick| f64::from(tick) * step);
        Self {
            ticks: ticks.map(|value| (value, short(value))).collect(),
            is_logarithmic: false,
        }
    }

    /// Per cent up to 100, from as high as leaves `lowest` in sight.
    pub(crate) fn percent(lowest: f64) -> Self {
        let from = [99.0, 90.0, 80.0, 60.0].into_iter();
        let from = from.into_iter().find(|from| *from < lowest).unwrap_or(0.0);
        let ticks = [from, (from + 100.0) / 2.0, 100.0];
        Self {
            ticks: ticks.map(|value| (value, format!("{value} %"))).to_vec(),
            is_logarithmic: false,
        }
    }

    /// Milliseconds by powers of ten: from a disk's time to hours of retries, nothing else would show both.
    pub(crate) fn milliseconds(least: f64, most: f64) -> Self {
        let first = least.max(1.0).log10().floor();
        let last = most.max(2.0).log10().ceil().max(first + 1.0);
        // No more than four of them have a word.
        let every = ((last - first) / 3.0).ceil();
        let count = ((last - first) / every).ceil();
        let ticks = (0..=count as i32).map(|tick| 10_f64.powf(first + f64::from(tick) * every));
        let word = |ms: f64| match ms < 1_000.0 {
            true => format!("{ms} ms"),
            false => format!("{} s", short(ms / 1_000.0)),
        };
        Self {
            ticks: ticks.map(|value| (value, word(value))).collect(),
            is_logarithmic: true,
        }
    }

    fn foot(&self) -> f64 {
        self.ticks.first().map_or(0.0, |(value, _)| *value)
    }

    fn top(&self) -> f64 {
        self.ticks.last().map_or(1.0, |(value, _)| *value)
    }

    /// What part of the axis lies below a value.
    fn share(&self, value: f64) -> f64 {
        let (foot, top) = (self.foot(), self.top());
        let share = match self.is_logarithmic {
            true => (value.max(foot) / foot).log10() / (top / foot).log10(),
            false => (value - foot) / (top - foot),
        };
        share.clamp(0.0, 1.0)
    }

    /// What its head says of an axis that does not begin at nothing.
    pub(crate) fn remark(&self) -> String {
        match self.ticks.first() {
            Some((value, label)) if !self.is_logarithmic && *value > 0.0 => {
                format!(", axis from {label}")
            }
            Some(_) | None => String::new(),
        }
    }
}

/// The next round number: 1, 2, 2.5, 4 or 5 with zeros, and no part of one.
fn round_up(value: f64) -> f64 {
    let value = value.max(1.0);
    let power = 10_f64.powf(value.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 4.0, 5.0, 10.0].map(|round| round * power);
    let fits = |round: &f64| *round >= value - f64::EPSILON && round.fract() == 0.0;
    rounds.into_iter().find(fits).unwrap_or(10.0 * power)
}

/// `500`, `1.5k`, `2M`.
fn short(value: f64) -> String {
    match value {
        1_000_000.0.. => format!("{}M", value / 1_000_000.0),
        1_000.0.. => format!("{}k", value / 1_000.0),
        _ => value.to_string(),
    }
}

impl Chart {
    /// A chart with nothing but its axis.
    pub(crate) fn new(id: &'static str, title: &'static str, unit: &str, scale: Scale) -> Self {
        Self {
            id,
            title,
            unit: format!("{unit}{}", scale.remark()),
            scale,
            keys: Vec::new(),
            bars: Vec::new(),
            curves: Vec::new(),
            times: Vec::new(),
            peak: String::new(),
            said: Vec::new(),
        }
    }

    /// The same with a stack of bars for each slot, of which the last has not ended.
    pub(crate) fn stacked(mut self, keys: &[Key], slots: &[Vec<u64>]) -> Self {
        let width = 100.0 / slots.len().max(1) as f64;
        for (index, counts) in slots.iter().enumerate() {
            let mut below = 0;
            for (key, count) in keys.iter().zip(counts).filter(|(_, count)| **count > 0) {
                let from = self.y(below as f64);
                below += count;
                let y = self.y(below as f64).min(from - LOWEST_BAR);
                self.bars.push(Bar {
                    class: key.0,
                    x: (index as f64 + 0.14) * width,
                    width: 0.72 * width,
                    y,
                    height: from - y,
                    is_part: index + 1 == slots.len(),
                });
            }
        }
        self.keys = keys.to_vec();
        self
    }

    /// The same with a line through the middle of each slot, broken where nothing is known.
    pub(crate) fn line(mut self, key: Key, values: &[Option<f64>]) -> Self {
        let (mut line, mut area) = (String::new(), String::new());
        let at = |index: f64| index * 100.0 / values.len() as f64;
        for mut run in runs(values) {
            // A line through one point has no length, so half of the slot is drawn.
            if let [(index, value)] = run[..] {
                run = vec![(index - 0.25, value), (index + 0.25, value)];
            }
            let point =
                |(index, value): &(f64, f64)| format!("{:.2} {:.1}", at(*index), self.y(*value));
            let points = run.iter().map(point).collect::<Vec<_>>().join("L");
            let (first, last) = (at(run[0].0), at(run[run.len() - 1].0));
            let foot = self.base();
            let _ = write!(line, "M{points}");
            let _ = write!(area, "M{first:.2} {foot}L{points}L{last:.2} {foot}z");
        }
        if self.scale.is_logarithmic || self.scale.foot() > 0.0 {
            area.clear();
        }
        self.curves.push(Curve { key, line, area });
        self.keys.push(key);
        self
    }

    /// The same with the words of each slot, the times below, and what is most remarkable.
    pub(crate) fn saying(
        self,
        said: Vec<String>,
        times: Vec<(f64, String)>,
        peak: impl Into<String>,
    ) -> Self {
        Self {
            said,
            times,
            peak: peak.into(),
            ..self
        }
    }

    /// How wide a slot is.
    fn width(&self) -> f64 {
        100.0 / self.said.len().max(1) as f64
    }

    /// The foot of the axis.
    fn base(&self) -> f64 {
        HEIGHT - FOOT
    }

    fn y(&self, value: f64) -> f64 {
        let y = self.base() - self.scale.share(value) * (self.base() - TOP);
        (y * 10.0).round() / 10.0
    }
}

/// The middles of slots with values that follow each other.
fn runs(values: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let points = values.iter().enumerate();
    let points = points.map(|(index, value)| value.map(|value| (index as f64 + 0.5, value)));
    let points: Vec<_> = points.collect();
    let runs = points.split(Option::is_none).filter(|run| !run.is_empty());
    runs.map(|run| run.iter().flatten().copied().collect())
        .collect()
}

/// A small chart without words, beside a figure that says what it draws.
#[derive(Clone, Debug, Default, PartialEq, Eq, Template)]
#[template(path = "widgets/spark.html")]
pub(crate) struct Spark {
    class: &'static str,
    path: String,
    is_line: bool,
}

part!(Spark);

/// Its size in its own units; the page stretches it.
const SPARK_WIDTH: f64 = 120.0;
const SPARK_HEIGHT: f64 = 28.0;

impl Spark {
    /// A bar for each count.
    pub(crate) fn bars(class: &'static str, counts: &[u64]) -> Self {
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let width = SPARK_WIDTH / counts.len().max(1) as f64;
        let mut path = String::new();
        for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let height = (*count as f64 / most * SPARK_HEIGHT).max(1.5);
            let (x, y) = (index as f64 * width, SPARK_HEIGHT - height);
            let bar = 0.7 * width;
            let _ = write!(path, "M{x:.1} {y:.1}h{bar:.1}v{height:.1}h-{bar:.1}z");
        }
        let is_line = false;
        Self {
            class,
            path,
            is_line,
        }
    }

    /// A line through all values.
    pub(crate) fn line(class: &'static str, values: &[f64]) -> Self {
        let most = values.iter().copied().fold(0.0, f64::max).max(f64::EPSILON);
        let distance = SPARK_WIDTH / values.len().saturating_sub(1).max(1) as f64;
        let point = |(index, value): (usize, &f64)| {
            let y = SPARK_HEIGHT - 2.0 - value / most * (SPARK_HEIGHT - 4.0);
            format!("{:.1} {y:.1}", index as f64 * distance)
        };
        let points: Vec<String> = values.iter().enumerate().map(point).collect();
        Self {
            class,
            path: format!("M{}", points.join("L")),
            is_line: true,
        }
    }

    fn is_empty(&self) -> bool {
        self.path.len() < 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> String {
        let labels = scale.ticks.iter().map(|(_, label)| label.as_str());
        labels.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn axes_have_round_values() {
        for (most, ticks) in [
            (0, "0, 1, 2, 3"),
            (3, "0, 1, 2, 3"),
            (7, "0, 4, 8, 12"),
            (60, "0, 20, 40, 60"),
            (75, "0, 25, 50, 75"),
            (1_140, "0, 400, 800, 1.2k"),
            (1_382, "0, 500, 1k, 1.5k"),
            (4_663, "0, 2k, 4k, 6k"),
            (2_000_000, "0, 1M, 2M, 3M"),
        ] {
            assert_eq!(labels(&Scale::counts(most)), ticks, "{most}");
        }
        for (lowest, ticks, remark) in [
            (100.0, "99 %, 99.5 %, 100 %", ", axis from 99 %"),
            (77.5, "60 %, 80 %, 100 %", ", axis from 60 %"),
            (60.0, "0 %, 50 %, 100 %", ""),
        ] {
            let scale = Scale::percent(lowest);
            assert_eq!(
                (labels(&scale).as_str(), scale.remark().as_str()),
                (ticks, remark)
            );
        }
        for (least, most, ticks) in [
            (22.0, 5_200.0, "10 ms, 100 ms, 1 s, 10 s"),
            (1.0, 1.0, "1 ms, 10 ms"),
            (2.0, 90_000_000.0, "1 ms, 1 s, 1k s, 1M s"),
        ] {
            assert_eq!(labels(&Scale::milliseconds(least, most)), ticks);
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_are_never_too_low_to_be_seen() {
        let chart = Chart::new("c", "t", "", Scale::counts(3_000)).stacked(
            &[Key("good", "", ""), Key("bad", "", "")],
            &[vec![1_500, 1], vec![0, 3_000]],
        );
        let drawn: Vec<_> = chart
            .bars
            .iter()
            .map(|bar| (bar.class, bar.y, bar.height))
            .collect();
        let expected = [
            ("good", 70.0, 52.0),
            ("bad", 69.0, 1.0),
            ("bad", 18.0, 104.0),
        ];
        assert_eq!(drawn, expected);
        assert!(chart.bars[2].is_part && !chart.bars[0].is_part);
    }

    #[test]
    fn lines_are_broken_where_nothing_is_known() {
        let values = [Some(100.0), Some(50.0), None, Some(0.0)];
        let chart = Chart::new("c", "t", "", Scale::percent(50.0));
        let chart = chart.line(Key("good", "line", ""), &values);
        assert_eq!(
            chart.curves[0].line,
            "M12.50 18.0L37.50 70.0M81.25 122.0L93.75 122.0"
        );
        assert!(
            chart.curves[0]
                .area
                .starts_with("M12.50 122L12.50 18.0L37.50 70.0L37.50 122z")
        );
    }

    #[test]
    fn sparks_draw_what_there_is() {
        assert!(Spark::bars("bad", &[0, 0]).is_empty());
        assert_eq!(
            Spark::bars("bad", &[1, 2]).path,
            "M0.0 14.0h42.0v14.0h-42.0zM60.0 0.0h42.0v28.0h-42.0z"
        );
        assert_eq!(Spark::line("good", &[1.0, 2.0]).path, "M0.0 14.0L120.0 2.0");
    }
}
