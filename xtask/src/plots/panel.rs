//! One traffic in a picture: admitted and refused requests, and the permits in the window.

use anyhow::Result;
use limiter_core::Policy;
use limiter_test::{
    bounds::published,
    traffic::{self, END, Outcome, QUOTA, Traffic},
};
use plotters::{coord::Shift, prelude::*};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WITHIN: RGBColor = RGBColor(31, 98, 172);
const ADMITTED: RGBColor = RGBColor(26, 127, 55);
const REFUSED: RGBColor = RGBColor(200, 40, 41);
const BOUND: RGBColor = RGBColor(246, 190, 110);

/// Above the highest bound, and below zero for the marks.
const TOP: f64 = 23.0;
const BOTTOM: f64 = -4.9;
const ADMITTED_AT: f64 = -0.7;
const REFUSED_AT: f64 = -2.8;
const MARK: f64 = 1.7;

/// Draws what becomes of `traffic`, under a caption.
pub(super) fn draw(
    area: &Area<'_>,
    policy: &Policy,
    traffic: &Traffic,
    caption: &str,
) -> Result<()> {
    let outcomes = traffic::send(policy, traffic);
    let end = seconds(END * 1_000);
    let font = ("sans-serif", 14).into_font().color(&BLACK);
    let mut chart = ChartBuilder::on(area)
        .margin_left(8)
        .margin_right(18)
        .margin_bottom(8)
        .caption(caption, font)
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..end, BOTTOM..TOP)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|time| format!("{time:.0}"))
        .y_label_formatter(&|number| {
            if *number < 0.0 { String::new() } else { format!("{number:.0}") }
        })
        .x_desc("time in s")
        .y_desc("permits")
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 12))
        .draw()?;

    let bound = policy.limits().first().map_or(0, published);
    let bound = f64::from(u32::try_from(bound)?);
    let limit = f64::from(u32::try_from(QUOTA.0)?);
    // Wide and pale: where it equals the limit, that is drawn on it.
    let line = |height| [(0.0, height), (end, height)];
    chart.draw_series(LineSeries::new(line(bound), BOUND.stroke_width(6)))?;
    chart.draw_series(DashedLineSeries::new(line(limit), 7, 4, BLACK.stroke_width(2)))?;
    chart.draw_series(LineSeries::new(within_window(&outcomes), WITHIN.stroke_width(2)))?;
    let mark = |at, height, color: RGBColor| {
        PathElement::new(
            [(seconds(at), height), (seconds(at), height - MARK)],
            color.stroke_width(2),
        )
    };
    let refused = outcomes.iter().filter(|outcome| outcome.admitted.is_none());
    chart.draw_series(refused.map(|outcome| mark(outcome.at, REFUSED_AT, REFUSED)))?;
    let admitted = outcomes.iter().filter_map(|outcome| outcome.admitted);
    chart.draw_series(
        admitted.filter(|at| *at < END * 1_000).map(|at| mark(at, ADMITTED_AT, ADMITTED)),
    )?;
    Ok(())
}

/// Says what the lines and marks are.
pub(super) fn legend(area: &Area<'_>) -> Result<()> {
    const Y: i32 = 12;
    let text = ("sans-serif", 13).into_font().color(&BLACK);
    let (line, gap) = (24, 6);
    let solid = |x, color: RGBColor, width| {
        area.draw(&PathElement::new([(x, Y), (x + line, Y)], color.stroke_width(width)))
    };
    let marks = |x, color: RGBColor| {
        [6, 12, 18].into_iter().try_for_each(|to| {
            let mark = [(x + to, Y - 7), (x + to, Y + 7)];
            area.draw(&PathElement::new(mark, color.stroke_width(2)))
        })
    };
    solid(20, WITHIN, 2)?;
    for dash in [178, 189] {
        area.draw(&PathElement::new([(dash, Y), (dash + 7, Y)], BLACK.stroke_width(2)))?;
    }
    solid(262, BOUND, 6)?;
    marks(428, ADMITTED)?;
    marks(548, REFUSED)?;
    let words = ["in the last 10 s", "limit", "published bound", "admitted", "refused"];
    for (x, words) in [20, 172, 262, 428, 548].into_iter().zip(words) {
        area.draw_text(words, &text, (x + line + gap, Y - 6))?;
    }
    Ok(())
}

/// Returns the number of permits in the trailing window, as a line of steps.
fn within_window(outcomes: &[Outcome]) -> Vec<(f64, f64)> {
    let window = QUOTA.1 * 1_000;
    let admitted = outcomes.iter().filter_map(|outcome| outcome.admitted);
    let mut changes: Vec<(u64, f64)> =
        admitted.flat_map(|at| [(at, 1.0), (at + window, -1.0)]).collect();
    // What leaves the window leaves before what comes in: it is half-open.
    changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut line = vec![(0.0, 0.0)];
    let mut height = 0.0;
    for (at, change) in changes.into_iter().filter(|(at, _)| *at <= END * 1_000) {
        line.push((seconds(at), height));
        height += change;
        line.push((seconds(at), height));
    }
    line.push((seconds(END * 1_000), height));
    line
}

fn seconds(millis: u64) -> f64 {
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1_000.0
}
