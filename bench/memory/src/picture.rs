//! Bar charts as SVG.

use std::fmt::Write as _;

use crate::{
    bytes::{self, Bytes},
    cells::{Cell, Outcome},
    keys::Pattern,
    report::thousands,
};

/// Bars side by side, with a name.
struct Group {
    name: String,
    bars: Vec<(&'static str, f64)>,
}

/// Returns the file name, the title and the text of each picture.
pub(crate) fn all(cells: &[Cell], bytes: &[Bytes]) -> Vec<(String, String, String)> {
    let text = cells.iter().find_map(|cell| cell.kind).unwrap_or_default();
    let mut pictures = Vec::new();
    for outcome in [Outcome::Admitted, Outcome::Refused] {
        let shown = |cell: &&Cell| {
            cell.kind == Some(text) && cell.outcome == outcome && cell.pattern == Pattern::Uniform
        };
        let title = format!("ns a check, {}, by number of string keys", outcome.name());
        let groups: Vec<Group> = cells.iter().filter(shown).map(group).collect();
        pictures.push((format!("{}.svg", outcome.name()), title, groups));
    }
    let for_all = cells.iter().filter(|cell| cell.kind.is_none());
    let groups = for_all.map(|cell| Group {
        name: format!("{}, {}", cell.outcome.name(), cell.threads()),
        ..group(cell)
    });
    let title = "ns a check with one key for all".to_owned();
    pictures.push(("one-key.svg".to_owned(), title, groups.collect()));
    let floods = cells.iter().filter(|cell| cell.outcome == Outcome::Fresh);
    let groups = floods.map(|cell| Group {
        name: format!("{}, {}", cell.kind.unwrap_or_default().replace('`', ""), cell.threads()),
        ..group(cell)
    });
    let title = "ns a check in a flood of fresh keys".to_owned();
    pictures.push(("flood.svg".to_owned(), title, groups.collect()));
    let keyed = bytes.iter().filter(|bytes| bytes.name != bytes::ONE_KEY);
    let bars = keyed.map(|bytes| (bytes.name, bytes.bytes)).collect();
    let title = "Bytes a key, 1,000,000 string keys".to_owned();
    pictures.push(("bytes.svg".to_owned(), title, vec![Group { name: String::new(), bars }]));
    let draw = |(name, title, groups): (_, String, Vec<_>)| {
        let svg = draw(&title, &groups);
        (name, title, svg)
    };
    pictures.into_iter().map(draw).collect()
}

fn group(cell: &Cell) -> Group {
    let name = format!("{}, {}", thousands(cell.keys), cell.threads());
    let bars = cell.measured.iter().map(|measured| (measured.name, measured.nanos.quartiles().0));
    Group { name, bars: bars.collect() }
}

const COLORS: [&str; 5] = ["#1f62ac", "#c0c4c9", "#98a0a8", "#77808a", "#565f69"];
const WIDTH: usize = 760;
const LABEL: usize = 190;
const BAR: usize = 14;

/// Draws horizontal bars, all on one scale.
fn draw(title: &str, groups: &[Group]) -> String {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let most = bars().map(|bar| bar.1).fold(1.0, f64::max);
    let height = 56 + groups.len() * 10 + bars().count() * BAR;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         style=\"max-width:100%;height:auto\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{title}</text>\n"
    );
    let mut x = 10;
    for ((name, _), color) in groups.first().into_iter().flat_map(|group| &group.bars).zip(COLORS) {
        let text = x + 14;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{color}\"/>\
             <text x=\"{text}\" y=\"39\">{name}</text>"
        );
        x += 110;
    }
    let mut y = 50;
    for group in groups {
        let middle = y + group.bars.len() * BAR / 2 + 4;
        let end = LABEL - 8;
        let _ = writeln!(
            svg,
            "<text x=\"{end}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            group.name
        );
        for ((_, value), color) in group.bars.iter().zip(COLORS) {
            let width = value / most * (WIDTH - LABEL - 60) as f64;
            let (thick, text) = (BAR - 2, y + BAR - 3);
            let after = LABEL as f64 + width + 4.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{LABEL}\" y=\"{y}\" width=\"{width:.1}\" height=\"{thick}\" \
                 fill=\"{color}\"/><text x=\"{after:.1}\" y=\"{text}\">{value:.0}</text>"
            );
            y += BAR;
        }
        y += 10;
    }
    svg + "</svg>\n"
}
