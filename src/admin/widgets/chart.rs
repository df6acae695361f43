//! Charts with one unit, an axis of round values, times below, and each value in words. `x` is a percentage of the
//! width and `y` is in pixels, so that a chart fits any page and its text is never scaled.

use std::fmt::Write as _;

use askama::Template;

use super::part;

/// The height of a chart, the top of the drawing below the line of words, and its base above the times.
const HEIGHT: f64 = 140.0;
const TOP: f64 = 18.0;
const BASE: f64 = 122.0;

/// The minimum height of a bar, so that small values stay visible next to large ones.
const LOWEST_BAR: f64 = 3.0;

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/chart.html")]
pub(crate) struct Chart {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: String,
    pub(crate) scale: Scale,
    pub(crate) series: Vec<Series>,
    /// The text of each slot; the last slot has not ended.
    pub(crate) said: Vec<String>,
    pub(crate) times: Vec<(f64, String)>,
    pub(crate) peak: String,
}

/// The color in the stylesheet; `line dash`, `line`, or empty for stacked bars; the label; and the value of each slot,
/// `None` where it is unknown.
#[derive(Clone, Debug)]
pub(crate) struct Series(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) Vec<Option<f64>>,
);

/// The range of values from the bottom of the axis to its top.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    ticks: Vec<(f64, String)>,
    is_logarithmic: bool,
}

part!(Chart, Spark);

impl Scale {
    fn new(values: impl IntoIterator<Item = f64>, word: impl Fn(f64) -> String) -> Self {
        let ticks = values.into_iter().map(|value| (value, word(value)));
        Self {
            ticks: ticks.collect(),
            is_logarithmic: false,
        }
    }

    /// Returns a scale from 0 to at least `most`, in three round steps.
    pub(crate) fn counts(most: u64) -> Self {
        let step = round_up(most as f64 / 3.0);
        Self::new([0.0, step, 2.0 * step, 3.0 * step], short)
    }

    /// Returns a scale of percentages up to 100 that starts low enough to show `lowest`.
    pub(crate) fn percent(lowest: f64) -> Self {
        let from = [99.0, 90.0, 80.0, 60.0]
            .into_iter()
            .find(|from| *from < lowest)
            .unwrap_or(0.0);
        let word = |value| format!("{value} %");
        Self::new([from, (from + 100.0) / 2.0, 100.0], word)
    }

    /// Returns a logarithmic scale of milliseconds, which can show both the latency of a disk and hours of retries.
    /// Values are kept away from both ends of the axis.
    pub(crate) fn milliseconds(least: f64, most: f64) -> Self {
        let first = (least / 1.2).max(1.0).log10().floor();
        let last = (most * 1.2).max(2.0).log10().ceil().max(first + 1.0);
        // At most four powers of ten have a label.
        let every = ((last - first) / 3.0).ceil();
        let count = ((last - first) / every).ceil();
        let ticks = (0..=count as i32).map(|tick| 10_f64.powf(first + f64::from(tick) * every));
        let word = |ms: f64| {
            if ms < 1_000.0 {
                format!("{ms} ms")
            } else {
                format!("{} s", short(ms / 1_000.0))
            }
        };
        Self {
            is_logarithmic: true,
            ..Self::new(ticks, word)
        }
    }

    fn share(&self, value: f64) -> f64 {
        let (foot, top) = (self.ticks[0].0, self.ticks[self.ticks.len() - 1].0);
        let share = if self.is_logarithmic {
            (value.max(foot) / foot).log10() / (top / foot).log10()
        } else {
            (value - foot) / (top - foot)
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns a remark for the heading of the chart if the axis does not begin at zero.
    pub(crate) fn remark(&self) -> String {
        let (foot, label) = &self.ticks[0];
        if *foot > 0.0 && !self.is_logarithmic {
            format!(", axis from {label}")
        } else {
            String::new()
        }
    }
}

/// Returns the next round number: 1, 2, 2.5, 4 or 5 times a power of ten, and always an integer.
fn round_up(value: f64) -> f64 {
    let positive = value.max(1.0);
    let power = 10_f64.powf(positive.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 4.0, 5.0, 10.0].map(|round| round * power);
    let fits = |round: &f64| *round >= positive - f64::EPSILON && round.fract() == 0.0;
    rounds.into_iter().find(fits).unwrap_or(10.0 * power)
}

/// Formats a number in short form: `500`, `1.5k`, `2M`.
fn short(value: f64) -> String {
    match value {
        1_000_000.0.. => format!("{}M", value / 1_000_000.0),
        1_000.0.. => format!("{}k", value / 1_000.0),
        _ => value.to_string(),
    }
}

impl Chart {
    fn is_empty(&self) -> bool {
        let mut values = self.series.iter().flat_map(|each| &each.3);
        values.all(Option::is_none)
    }

    fn width(&self) -> f64 {
        100.0 / self.said.len().max(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        let y = BASE - self.scale.share(value) * (BASE - TOP);
        (y * 10.0).round() / 10.0
    }

    /// Returns the color, slot, top position and height of each bar.
    fn bars(&self) -> Vec<(&'static str, usize, f64, f64)> {
        let mut below = vec![0.0; self.said.len()];
        let mut bars = Vec::new();
        for Series(class, _, _, values) in self.series.iter().filter(|each| each.1.is_empty()) {
            let counts = values.iter().map(|count| count.unwrap_or(0.0));
            for (slot, count) in counts.enumerate().filter(|(_, count)| *count > 0.0) {
                let from = self.y(below[slot]);
                below[slot] += count;
                let y = self.y(below[slot]).min(from - LOWEST_BAR);
                bars.push((*class, slot, y, from - y));
            }
        }
        bars
    }

    /// Returns a line through the middle of each slot with gaps at unknown values, and dots for values without a
    /// neighbor, which no line reaches.
    fn curve(&self, values: &[Option<f64>]) -> [String; 2] {
        let [mut line, mut dots] = [const { String::new() }; 2];
        let point = |(slot, value): (usize, &Option<f64>)| Some((slot as f64 + 0.5, (*value)?));
        let points: Vec<_> = values.iter().enumerate().map(point).collect();
        for run in points.split(Option::is_none).filter(|run| !run.is_empty()) {
            let run: Vec<_> = run.iter().flatten().copied().collect();
            let point = |(x, value)| format!("{:.2} {:.1}", x * self.width(), self.y(value));
            let points = Vec::from_iter(run.iter().copied().map(point)).join("L");
            let _ = match run.len() {
                1 => write!(dots, "M{points}h0"),
                _ => write!(line, "M{points}"),
            };
        }
        [line, dots]
    }
}

/// A small chart without labels next to the figure that it illustrates. The page stretches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Template)]
#[template(path = "widgets/spark.html")]
pub(crate) struct Spark {
    class: &'static str,
    path: String,
    is_line: bool,
}

const SPARK_WIDTH: f64 = 120.0;
const SPARK_HEIGHT: f64 = 28.0;

impl Spark {
    pub(crate) fn bars(class: &'static str, counts: &[u64]) -> Self {
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let width = SPARK_WIDTH / counts.len().max(1) as f64;
        let bar = |(index, count): (usize, &u64)| {
            let height = (*count as f64 / most * SPARK_HEIGHT).max(1.5);
            let (x, y, bar) = (index as f64 * width, SPARK_HEIGHT - height, 0.7 * width);
            format!("M{x:.1} {y:.1}h{bar:.1}v{height:.1}h-{bar:.1}z")
        };
        let drawn = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            class,
            path: drawn.map(bar).collect(),
            is_line: false,
        }
    }

    pub(crate) fn line(class: &'static str, values: &[f64]) -> Self {
        let most = values.iter().copied().fold(f64::EPSILON, f64::max);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, series: Vec<Series>, slots: usize) -> Chart {
        Chart {
            id: "c",
            title: "t",
            unit: String::new(),
            scale,
            series,
            said: vec![String::new(); slots],
            times: Vec::new(),
            peak: String::new(),
        }
    }

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
        let good = Series("good", "", "", vec![Some(1_500.0), Some(0.0)]);
        let bad = Series("bad", "", "", vec![Some(1.0), Some(3_000.0)]);
        let chart = chart(Scale::counts(3_000), vec![good, bad], 2);
        let expected = [
            ("good", 0, 70.0, 52.0),
            ("bad", 0, 67.0, 3.0),
            ("bad", 1, 18.0, 104.0),
        ];
        assert_eq!(chart.bars(), expected);
        let html = chart.to_string();
        let parts = html.matches("fill-bad part\"").count();
        assert_eq!((parts, html.matches(" part\"").count()), (1, 1), "{html}");
    }

    #[test]
    fn lines_are_broken_where_nothing_is_known() {
        let values = [Some(100.0), Some(50.0), None, Some(0.0)];
        let chart = chart(Scale::percent(50.0), Vec::new(), values.len());
        let [line, dots] = chart.curve(&values);
        assert_eq!(
            (&*line, &*dots),
            ("M12.50 18.0L37.50 70.0", "M87.50 122.0h0")
        );
    }

    #[test]
    fn sparks_draw_what_there_is() {
        assert!(Spark::bars("bad", &[0, 0]).to_string().is_empty());
        assert_eq!(
            Spark::bars("bad", &[1, 2]).path,
            "M0.0 14.0h42.0v14.0h-42.0zM60.0 0.0h42.0v28.0h-42.0z"
        );
        assert_eq!(Spark::line("good", &[1.0, 2.0]).path, "M0.0 14.0L120.0 2.0");
    }
}
