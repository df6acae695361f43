//! A run as a picture: rates over time, and latencies by percentile.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Circle, Color, DrawingArea, IntoDrawingArea, IntoLogRange, LineSeries,
    PathElement, RGBColor, SVGBackend, SeriesLabelPosition, TRANSPARENT, WHITE,
};

use crate::app::bench::figures::LatencyPercentiles;
use crate::app::bench::records::{Records, SLICE};

const SIZE: (u32, u32) = (900, 620);

/// Points of a curve, at most: more would not be told apart.
const POINTS_MAX: usize = 150;

/// Told apart by people who do not see red and green as two colours, too.
const PUBLISHED: RGBColor = RGBColor(31, 111, 235);
const DELIVERED: RGBColor = RGBColor(230, 119, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A named curve: seconds and events per second, or percentile and milliseconds.
type Curve<'a> = (&'a str, RGBColor, Vec<(f64, f64)>);

/// Writes the picture, as SVG.
pub fn write(
    file: &Path,
    title: &str,
    records: &Records,
    percentiles: [LatencyPercentiles; 2],
) -> anyhow::Result<()> {
    let draw = || -> Result<(), Box<dyn std::error::Error + '_>> {
        let picture = SVGBackend::new(file, SIZE).into_drawing_area();
        picture.fill(&WHITE)?;
        let area = picture.titled(title, ("sans-serif", 20))?;
        let (above, below) = area.split_vertically(SIZE.1 / 2);
        rates(&above, records)?;
        latencies(&below, percentiles)?;
        area.present()?;
        Ok(())
    };
    draw().map_err(|error| anyhow!("{} cannot be written: {error}", file.display()))
}

fn rates(area: &Area<'_>, records: &Records) -> Result<(), Box<dyn std::error::Error>> {
    let curves: [Curve<'_>; 2] = [
        (
            "accepted",
            PUBLISHED,
            per_second(&records.published().slices),
        ),
        (
            "delivered",
            DELIVERED,
            per_second(&records.arrivals().slices),
        ),
    ];
    let seconds = largest(&curves, |(seconds, _)| seconds);
    let rate = largest(&curves, |(_, rate)| rate);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..seconds, 0.0..rate * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("events per second")
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (name, color, points) in curves {
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    Ok(())
}

fn latencies(
    area: &Area<'_>,
    [published, delivered]: [LatencyPercentiles; 2],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = |percentiles: &LatencyPercentiles| {
        let places = percentiles.named().into_iter().enumerate();
        places
            .map(|(at, (_, ms))| (at as f64, ms.max(0.01)))
            .collect()
    };
    let curves: [Curve<'_>; 2] = [
        ("publish request", PUBLISHED, points(&published)),
        ("publish to delivery", DELIVERED, points(&delivered)),
    ];
    let most = largest(&curves, |(_, ms)| ms);
    let names = published.named().map(|(name, _)| name);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.2..4.2, (0.1..most * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .x_labels(names.len())
        .x_label_formatter(&|at: &f64| {
            let is_whole = at.fract().abs() < f64::EPSILON;
            let name = is_whole.then(|| names.get(*at as usize)).flatten();
            name.copied().unwrap_or_default().to_owned()
        })
        .x_desc("percentile")
        .y_desc("milliseconds")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (name, color, points) in curves {
        let dots = points.iter().map(|at| Circle::new(*at, 3, color.filled()));
        chart.draw_series(dots.collect::<Vec<_>>())?;
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
}

/// Seconds and rates. The last slice is left out where there are others: it is not a whole one.
fn per_second(slices: &[u64]) -> Vec<(f64, f64)> {
    let whole = match slices {
        [whole @ .., _] if !whole.is_empty() => whole,
        all => all,
    };
    let together = whole.len().div_ceil(POINTS_MAX).max(1);
    let width = SLICE.as_secs_f64();
    let points = whole.chunks(together).enumerate();
    let point = |(at, chunk): (usize, &[u64])| {
        let seconds = chunk.len() as f64 * width;
        let middle = (at * together) as f64 * width + seconds / 2.0;
        (middle, chunk.iter().sum::<u64>() as f64 / seconds)
    };
    points.map(point).collect()
}

fn largest(curves: &[Curve<'_>], of: impl Fn((f64, f64)) -> f64) -> f64 {
    let points = curves.iter().flat_map(|(_, _, points)| points);
    points.map(|point| of(*point)).fold(0.1, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_slices() {
        assert_eq!(
            per_second(&[100, 200, 7]),
            [(0.05, 1_000.0), (0.15000000000000002, 2_000.0)]
        );
        assert_eq!(per_second(&[7]), [(0.05, 70.0)]);
        assert!(per_second(&[1; 10_000]).len() <= POINTS_MAX);
    }
}
