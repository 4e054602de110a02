//! `cargo xtask plots`: a picture of each algorithm under the same traffic, and one of a simulated key.

mod panel;
mod series;
mod simulation;

use anyhow::{Context, Result, ensure};
use limiter_test::{
    bounds::cases::quota,
    traffic::{Contender, all, contenders},
};
use plotters::prelude::*;
use xshell::Shell;

/// Where the pictures are, so that the crate's documentation can include them.
const FOLDER: &str = "crates/limiter-core/docs";

const SIZE: (u32, u32) = (800, 780);
const TITLE: u32 = 34;
const LEGEND: u32 = 30;

/// Draws all pictures, or checks that they are as they would be drawn.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let check = arguments == ["--check"];
    ensure!(check || arguments.is_empty(), "plots has one option: --check");
    if !check {
        simulation::run_anew(shell)?;
    }
    let simulation = simulation::draw(shell)?;
    keep(shell, check, simulation::PATH, simulation)?;
    let (permits, seconds) = limiter_test::traffic::QUOTA;
    for contender in contenders(permits, seconds) {
        let path = format!("{FOLDER}/{}.svg", contender.slug);
        let drawn = draw(&contender).with_context(|| path.clone())?;
        keep(shell, check, &path, drawn)?;
    }
    Ok(())
}

/// Writes a picture, or checks that it is as it would be written.
fn keep(shell: &Shell, check: bool, path: &str, drawn: String) -> Result<()> {
    if check {
        let same = shell.read_file(path).is_ok_and(|old| old == drawn);
        ensure!(same, "{path} is not up to date; draw it with `cargo xtask plots`");
    } else {
        shell.write_file(path, drawn)?;
        println!("{path}");
    }
    Ok(())
}

fn draw(contender: &Contender) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (title, rest) = root.split_vertically(TITLE);
        let style = ("sans-serif", 18).into_font().style(FontStyle::Bold).color(&BLACK);
        let quota = contender.policy.limits().iter().map(quota).collect::<String>();
        let text = format!("{}: {quota}", contender.name);
        title.draw_text(&text, &style, (14, 10))?;
        let (panels, legend) = rest.split_vertically(SIZE.1 - TITLE - LEGEND);
        for (area, traffic) in panels.split_evenly((3, 1)).iter().zip(all()) {
            panel::draw(area, &contender.policy, &traffic)?;
        }
        panel::legend(&legend)?;
        root.present()?;
    }
    Ok(compact(&svg))
}

/// Joins lines that follow each other and look alike, and leaves out what goes without saying.
///
/// There are no empty lines either: in documentation, one would end the picture.
fn compact(svg: &str) -> String {
    let mut compact = String::new();
    let mut style = "";
    let mut path = String::new();
    for line in svg.lines().filter(|line| !line.trim().is_empty()) {
        let points = line.strip_prefix("<polyline ").and_then(|line| line.split_once(" points=\""));
        let new = points.map_or("", |(new, _)| new);
        if new != style && !path.is_empty() {
            compact += &format!("<path {style} d=\"{path}\"/>\n");
            path.clear();
        }
        style = new;
        match points {
            Some((_, points)) => {
                path += "M";
                path += &points.trim_end_matches(" \"/>").replace(' ', "L");
            }
            None => compact += &format!("{line}\n"),
        }
    }
    // As wide as there is room for.
    compact.replace(" opacity=\"1\"", "").replacen(
        "<svg ",
        "<svg style=\"max-width:100%;height:auto\" ",
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_look_alike_are_one_path() {
        let svg = "<svg>\n<polyline a=\"1\" opacity=\"1\" points=\"1,2 3,4 \"/>\n\n\
                   <polyline a=\"1\" opacity=\"1\" points=\"5,6 7,8 \"/>\n\
                   <polyline a=\"2\" opacity=\"1\" points=\"5,6 7,8 \"/>\n</svg>\n";
        let path = "<svg>\n<path a=\"1\" d=\"M1,2L3,4M5,6L7,8\"/>\n<path a=\"2\" d=\"M5,6L7,8\"/>\n</svg>\n";
        assert_eq!(compact(svg), path);
    }
}
