//! The picture of a simulated key: what it admitted before, during and after faults.

use std::ops::Range;

use anyhow::{Context, Result};
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use xshell::{Shell, cmd};

use super::{
    compact,
    series::{ROW, Row, Series},
};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) const PATH: &str = "docs/pictures/simulation.svg";

/// The series, which a test of limiter-sim compares with a run.
const TABLE: &str = "crates/limiter-sim/picture.csv";

const WIDTH: u32 = 900;
const TITLE: u32 = 62;
const USED: u32 = 190;
const ADMITTED: u32 = 190;
const HELD: u32 = 120;
const LANE: u32 = 17;
/// Below and above the lanes of faults.
const AXIS: u32 = 64;

const SERVER: RGBColor = RGBColor(31, 98, 172);
const LEASE: RGBColor = RGBColor(26, 127, 55);
const SHARE: RGBColor = RGBColor(176, 108, 0);
const FAULT: RGBColor = RGBColor(200, 40, 41);
const DURING: RGBColor = RGBColor(253, 240, 238);

/// When faults begin and end, in seconds: see `Settings::pictured`.
const FAULTS: Range<f64> = 2.0..8.0;

/// Writes the series anew.
pub(super) fn run_anew(shell: &Shell) -> Result<()> {
    let program = ["--release", "--package", "limiter-sim", "--bin", "simulate"];
    let table = cmd!(shell, "cargo run --quiet {program...} -- --picture").quiet().read()?;
    shell.write_file(TABLE, format!("{table}\n"))?;
    println!("{TABLE}");
    Ok(())
}

pub(super) fn draw(shell: &Shell) -> Result<String> {
    let series = Series::parse(&shell.read_file(TABLE)?).context(TABLE)?;
    let end = series.rows.last().map_or(0.0, |row| row.from + ROW);
    let lanes = u32::try_from(series.faults.len())? * LANE + AXIS;
    let size = (WIDTH, TITLE + USED + ADMITTED + HELD + lanes);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (title, rest) = root.split_vertically(TITLE);
        draw_title(&title, &series)?;
        let (used, rest) = rest.split_vertically(USED);
        let (admitted, rest) = rest.split_vertically(ADMITTED);
        let (held, faults) = rest.split_vertically(HELD);
        draw_used(&used, &series, end)?;
        draw_admitted(&admitted, &series, end)?;
        draw_held(&held, &series, end)?;
        draw_faults(&faults, &series, end)?;
        root.present()?;
    }
    Ok(compact(&svg))
}

fn draw_title(area: &Area<'_>, series: &Series) -> Result<()> {
    let title = ("sans-serif", 17).into_font().style(FontStyle::Bold).color(&BLACK);
    let text = format!(
        "One key of a simulated fleet of four processes: {:.0}/s by GCRA, burst {:.0}, with leases",
        series.rate, series.burst
    );
    area.draw_text(&text, &title, (14, 10))?;
    let legend = ("sans-serif", 13).into_font().color(&BLACK);
    let words = [
        (14, SERVER, "admitted by the server"),
        (190, LEASE, "by leases"),
        (286, SHARE, "by a process's share, without the server"),
        (556, DURING, "while there are faults"),
    ];
    for (x, color, words) in words {
        area.draw(&Rectangle::new([(x, 38), (x + 12, 50)], color.filled()))?;
        area.draw(&Rectangle::new([(x, 38), (x + 12, 50)], BLACK.mix(0.3)))?;
        area.draw_text(words, &legend, (x + 18, 38))?;
    }
    Ok(())
}

/// Draws the axes of a panel, and the time of faults behind it.
macro_rules! panel {
    ($area:expr, $end:expr, $heights:expr, $caption:expr, $labels:expr) => {{
        let heights: Range<f64> = $heights;
        let mut chart = ChartBuilder::on($area)
            .margin_left(8)
            .margin_right(16)
            .caption($caption, ("sans-serif", 14).into_font().color(&BLACK))
            .x_label_area_size(8)
            .y_label_area_size(165)
            .build_cartesian_2d(0.0..$end, heights.clone())?;
        let during = [(FAULTS.start, heights.start), (FAULTS.end, heights.end)];
        chart.draw_series([Rectangle::new(during, DURING.filled())])?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_labels(0)
            .y_labels($labels)
            .y_label_formatter(&|number| format!("{number:.0}"))
            .label_style(("sans-serif", 12))
            .draw()?;
        chart
    }};
}

fn draw_used(area: &Area<'_>, series: &Series, end: f64) -> Result<()> {
    let top = series.burst * 1.15;
    let caption = "Burst in use by all processes together; the line is the bound";
    let mut chart = panel!(area, end, 0.0..top, caption, 5);
    let bound = [(0.0, series.burst), (end, series.burst)];
    chart.draw_series(LineSeries::new(bound, BLACK.stroke_width(2)))?;
    chart.draw_series(bars(series, SERVER.mix(0.45), |row| (0.0, row.used)))?;
    Ok(())
}

fn draw_admitted(area: &Area<'_>, series: &Series, end: f64) -> Result<()> {
    // A burst is far above all other rows.
    let sums = series.rows.iter().map(|row| row.admitted.iter().sum::<f64>());
    let top = sums.fold(0.0, f64::max) * 1.08;
    let caption = "Permits admitted in each 50 ms; the dashed line is the limit's rate";
    let mut chart = panel!(area, end, 0.0..top, caption, 5);
    let above = |number| {
        move |row: &Row| {
            let below: f64 = row.admitted.iter().take(number).sum();
            (below, below + row.admitted.get(number).unwrap_or(&0.0))
        }
    };
    chart.draw_series(bars(series, SERVER, above(0)))?;
    chart.draw_series(bars(series, LEASE, above(1)))?;
    chart.draw_series(bars(series, SHARE, above(2)))?;
    let rate = series.rate * ROW;
    chart.draw_series(DashedLineSeries::new(
        [(0.0, rate), (end, rate)],
        7,
        4,
        BLACK.stroke_width(1),
    ))?;
    Ok(())
}

fn draw_held(area: &Area<'_>, series: &Series, end: f64) -> Result<()> {
    let top = series.rows.iter().map(|row| row.held).fold(8.0, f64::max) * 1.1;
    let mut chart = panel!(area, end, 0.0..top, "Permits held in leases", 4);
    chart.draw_series(bars(series, LEASE, |row| (0.0, row.held)))?;
    Ok(())
}

fn draw_faults(area: &Area<'_>, series: &Series, end: f64) -> Result<()> {
    let lanes = f64::from(u32::try_from(series.faults.len())?);
    let mut chart = ChartBuilder::on(area)
        .margin_left(8)
        .margin_right(16)
        .caption("Faults, and resets by callers, which make the key fresh", ("sans-serif", 14))
        .x_label_area_size(34)
        .y_label_area_size(165)
        .build_cartesian_2d(0.0..end, 0.0..lanes)?;
    let during = [(FAULTS.start, 0.0), (FAULTS.end, lanes)];
    chart.draw_series([Rectangle::new(during, DURING.filled())])?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(11)
        .y_labels(0)
        .x_label_formatter(&|time| format!("{time:.0}"))
        .x_desc("time in s")
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 12))
        .draw()?;
    let anchor = Pos::new(HPos::Right, VPos::Center);
    let style = ("sans-serif", 12).into_font().color(&BLACK).pos(anchor);
    for ((kind, spans), lane) in series.faults.iter().zip(1_u32..) {
        let middle = lanes - f64::from(lane) + 0.5;
        // At least as wide as a line.
        let marks = spans.iter().map(|(from, to)| {
            let to = to.max(from + 0.012).min(end);
            Rectangle::new([(*from, middle - 0.34), (to, middle + 0.34)], FAULT.filled())
        });
        chart.draw_series(marks)?;
        let (x, y) = chart.backend_coord(&(0.0, middle));
        let (left, top) = area.get_base_pixel();
        area.draw_text(kind, &style, (x - left - 8, y - top))?;
    }
    Ok(())
}

/// Returns a bar for each row, between two heights.
fn bars(
    series: &Series,
    color: impl Into<ShapeStyle>,
    heights: impl Fn(&Row) -> (f64, f64),
) -> Vec<Rectangle<(f64, f64)>> {
    let style = ShapeStyle { filled: true, ..color.into() };
    let bar = |row: &Row| {
        let (low, high) = heights(row);
        let end = row.from + ROW;
        (high > low).then(|| Rectangle::new([(row.from, low), (end, high)], style))
    };
    series.rows.iter().filter_map(bar).collect()
}
