//! `cargo xtask plots`: a picture of each algorithm under the same traffic.

mod panel;

use anyhow::{Context, Result, ensure};
use limiter_test::{
    bounds::cases::quota,
    traffic::{Contender, Traffic, all, contenders},
};
use plotters::prelude::*;
use xshell::Shell;

/// Where the pictures are, so that the crate's documentation can include them.
const FOLDER: &str = "crates/limiter-core/docs";

/// The picture of the README.
const OVERVIEW: &str = "docs/pictures/algorithms.svg";

/// The algorithms in it, by their slugs.
const OVERVIEW_OF: [&str; 4] = ["gcra", "fixed-window", "sliding-counter", "exact-log"];

const SIZE: (u32, u32) = (800, 780);
const TITLE: u32 = 34;
const LEGEND: u32 = 30;

/// Draws all pictures.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    ensure!(arguments.is_empty(), "plots takes no arguments");
    for (path, drawn) in pictures()? {
        shell.write_file(&path, drawn)?;
        println!("{path}");
    }
    Ok(())
}

/// Returns the path and the text of each picture.
fn pictures() -> Result<Vec<(String, String)>> {
    let (permits, seconds) = limiter_test::traffic::QUOTA;
    let contenders = contenders(permits, seconds);
    let mut all = vec![(OVERVIEW.to_owned(), draw_overview(&contenders)?)];
    for contender in contenders {
        all.push((format!("{FOLDER}/{}.svg", contender.slug), draw(&contender)?));
    }
    Ok(all)
}

/// Draws one algorithm under each traffic.
fn draw(contender: &Contender) -> Result<String> {
    let quota = contender.policy.limits().iter().map(quota).collect::<String>();
    let title = format!("{}: {quota}", contender.name);
    let traffics = all();
    let panels = traffics.iter().map(|it| (contender, it, format!("Traffic: {}", it.name)));
    draw_panels(&title, &panels.collect::<Vec<_>>(), (3, 1))
}

/// Draws four algorithms under the same traffic.
fn draw_overview(contenders: &[Contender]) -> Result<String> {
    let [.., traffic] = all();
    let title = format!("10 per 10 s, under {}", traffic.name);
    let find = |slug| {
        let contender = contenders.iter().find(|it| it.slug == slug);
        contender.with_context(|| format!("no algorithm is named {slug:?}"))
    };
    let panels = OVERVIEW_OF.iter().map(|slug| {
        let contender = find(*slug)?;
        Ok((contender, &traffic, contender.name.to_owned()))
    });
    draw_panels(&title, &panels.collect::<Result<Vec<_>>>()?, (2, 2))
}

/// Draws a picture with a title and these panels, each with its caption, in rows and columns.
fn draw_panels(
    title: &str,
    panels: &[(&Contender, &Traffic, String)],
    grid: (usize, usize),
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, rest) = root.split_vertically(TITLE);
        let style = ("sans-serif", 18).into_font().style(FontStyle::Bold).color(&BLACK);
        head.draw_text(title, &style, (14, 10))?;
        let (areas, legend) = rest.split_vertically(SIZE.1 - TITLE - LEGEND);
        for (area, (contender, traffic, caption)) in areas.split_evenly(grid).iter().zip(panels) {
            panel::draw(area, &contender.policy, traffic, caption)?;
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
    use std::fs;

    use super::*;
    use crate::workspace::ROOT;

    #[test]
    fn each_algorithm_has_its_picture_under_the_same_traffic() {
        for (path, drawn) in pictures().unwrap() {
            let stored = fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
            assert!(stored == drawn, "{path} is out of date; run `cargo xtask plots`");
        }
    }

    #[test]
    fn lines_that_look_alike_are_one_path() {
        let svg = "<svg>\n<polyline a=\"1\" opacity=\"1\" points=\"1,2 3,4 \"/>\n\n\
                   <polyline a=\"1\" opacity=\"1\" points=\"5,6 7,8 \"/>\n\
                   <polyline a=\"2\" opacity=\"1\" points=\"5,6 7,8 \"/>\n</svg>\n";
        let path = "<svg>\n<path a=\"1\" d=\"M1,2L3,4M5,6L7,8\"/>\n<path a=\"2\" d=\"M5,6L7,8\"/>\n</svg>\n";
        assert_eq!(compact(svg), path);
    }
}
