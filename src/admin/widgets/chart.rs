//! Shapes of charts: heights to the paths of a drawing. What they mean is said by whoever draws.
//!
//! Heights are shares of the drawing, `0.0` at its bottom and `1.0` at its top; what lies outside is cut.
//! Each slot of time has the same part of the width.

use std::fmt::Write as _;

/// A drawing's size in its own units; the page stretches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Canvas {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// Something drawn, with its class in the stylesheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) class: &'static str,
    /// In the language of SVG paths.
    pub(crate) path: String,
}

/// The gap between two bars, as a share of their distance.
const GAP: f64 = 0.2;

/// Bars are never lower than this, in units of the drawing: what happened must be seen, however much more
/// happened elsewhere.
const LOWEST_BAR: f64 = 1.0;

impl Canvas {
    /// A line that is level within each slot, and broken where a slot has no height.
    pub(crate) fn steps(self, heights: &[Option<f64>]) -> String {
        let mut path = String::new();
        for run in runs(heights) {
            let _ = write!(
                path,
                "M{} {}",
                self.x(&run, 0, heights),
                self.y(run.heights[0])
            );
            path += &self.along(&run, heights);
        }
        path
    }

    /// What lies below that line.
    pub(crate) fn below_steps(self, heights: &[Option<f64>]) -> String {
        let mut path = String::new();
        for run in runs(heights) {
            let (from, bottom) = (self.x(&run, 0, heights), self.height);
            let _ = write!(
                path,
                "M{from} {bottom}{}V{bottom}Z",
                self.along(&run, heights)
            );
        }
        path
    }

    /// A line from edge to edge, through one height more than there are slots.
    pub(crate) fn line(self, heights: &[f64]) -> String {
        let distance = f64::from(self.width) / heights.len().saturating_sub(1).max(1) as f64;
        let mut path = String::new();
        for (index, height) in heights.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let x = units(index as f64 * distance);
            let _ = write!(path, "{command}{x} {}", self.y(*height));
        }
        path
    }

    /// What lies below that line.
    pub(crate) fn below_line(self, heights: &[f64]) -> String {
        match heights {
            [] => String::new(),
            _ => format!("{}V{}H0Z", self.line(heights), self.height),
        }
    }

    /// A bar for each slot, from one height to another; none where they are the same.
    pub(crate) fn bars(self, spans: &[(f64, f64)]) -> String {
        let distance = f64::from(self.width) / spans.len().max(1) as f64;
        let all = f64::from(self.height);
        let mut path = String::new();
        for (index, (from, to)) in spans.iter().enumerate().filter(|(_, (from, to))| from < to) {
            let left = index as f64 * distance + distance * GAP / 2.0;
            let right = units(left + distance * (1.0 - GAP));
            let (from, to) = (all - from * all, all - to.min(1.0) * all);
            let top = to.min(from - LOWEST_BAR).max(0.0);
            let bottom = units(from.max(top + LOWEST_BAR));
            let (left, top) = (units(left), units(top));
            let _ = write!(path, "M{left} {bottom}V{top}H{right}V{bottom}Z");
        }
        path
    }

    /// Up or down to each height of a run, and through its slot.
    fn along(self, run: &Run, heights: &[Option<f64>]) -> String {
        let mut path = String::new();
        for (index, height) in run.heights.iter().enumerate() {
            let to = self.x(run, index + 1, heights);
            let _ = write!(path, "V{}H{to}", self.y(*height));
        }
        path
    }

    fn x(self, run: &Run, index: usize, slots: &[Option<f64>]) -> String {
        let distance = f64::from(self.width) / slots.len().max(1) as f64;
        units((run.first + index) as f64 * distance)
    }

    fn y(self, height: f64) -> String {
        units((1.0 - height.clamp(0.0, 1.0)) * f64::from(self.height))
    }
}

/// What part of `most` a count is.
pub(crate) fn share_of(count: u64, most: u64) -> f64 {
    count as f64 / most.max(1) as f64
}

/// Slots with heights that follow each other; at least one.
struct Run {
    first: usize,
    heights: Vec<f64>,
}

fn runs(heights: &[Option<f64>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut is_open = false;
    for (index, height) in heights.iter().enumerate() {
        match (height, runs.last_mut().filter(|_| is_open)) {
            (Some(height), Some(run)) => run.heights.push(*height),
            (Some(height), None) => runs.push(Run {
                first: index,
                heights: vec![*height],
            }),
            (None, _) => (),
        }
        is_open = height.is_some();
    }
    runs
}

/// A length, as short as it can be written.
fn units(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANVAS: Canvas = Canvas {
        width: 100,
        height: 10,
    };

    #[test]
    fn steps_are_level_within_a_slot_and_broken_where_nothing_is_known() {
        let heights = [Some(1.0), Some(0.5), None, Some(0.0)];
        assert_eq!(CANVAS.steps(&heights), "M0 0V0H25V5H50M75 10V10H100");
        assert_eq!(
            CANVAS.below_steps(&heights),
            "M0 10V0H25V5H50V10ZM75 10V10H100V10Z"
        );
        assert_eq!(CANVAS.steps(&[None, None]), "");
        assert_eq!(CANVAS.steps(&[]), "");
    }

    #[test]
    fn lines_go_from_edge_to_edge() {
        assert_eq!(CANVAS.line(&[0.0, 1.0, 0.25]), "M0 10L50 0L100 7.5");
        assert_eq!(CANVAS.below_line(&[0.0, 1.0]), "M0 10L100 0V10H0Z");
        assert_eq!(CANVAS.below_line(&[]), "");
    }

    #[test]
    fn bars_stand_anywhere_and_are_never_too_low_to_be_seen() {
        for (spans, expected) in [
            ([(0.0, 1.0), (0.0, 0.0)], "M5 10V0H45V10Z"),
            ([(0.0, 0.001), (0.0, 7.0)], "M5 10V9H45V10ZM55 10V0H95V10Z"),
            (
                [(0.25, 0.75), (0.999, 1.0)],
                "M5 7.5V2.5H45V7.5ZM55 1V0H95V1Z",
            ),
        ] {
            assert_eq!(CANVAS.bars(&spans), expected);
        }
    }

    #[test]
    fn nothing_of_nothing_is_no_share() {
        assert!(share_of(0, 0) < f64::EPSILON);
        assert!((share_of(1, 4) - 0.25).abs() < f64::EPSILON);
    }
}
