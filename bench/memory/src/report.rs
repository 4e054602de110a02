//! The report: tables, targets and pictures.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Result;

use crate::{
    Effort, Profile,
    bytes::{self, Bytes},
    cells::{self, Cell, Outcome},
    host, in_flight,
    keys::Key,
    measure::Measured,
    operations, picture,
    table::Table,
};

/// Where the pictures of a full run are written.
const FOLDER: &str = "docs/benchmarks";

const PEERS: &[&str] = &["governor", "rate-net", "ratelimit", "leaky-bucket"];

/// At most which part of governor's time ours may take in a cell.
#[derive(Clone, Copy)]
struct Target(f64);

const FRESH: f64 = 0.50;
const ONE_KEY_ADMITTED: f64 = 1.10;
const ONE_KEY_REFUSED: f64 = 1.20;

/// The most bytes that a key of ours may take.
const MOST_BYTES: f64 = 40.0;

/// The most bytes that a limiter with room for one key may take.
const MOST_BYTES_ALONE: f64 = 1_024.0;

impl Target {
    /// Returns the target of a cell. Integers and addresses have none but in a flood.
    fn of(cell: &Cell, profile: &Profile) -> Option<Self> {
        match (cell.kind, cell.outcome) {
            (_, Outcome::Fresh) => Some(Self(FRESH)),
            (None, Outcome::Admitted) => Some(Self(ONE_KEY_ADMITTED)),
            (None, _) => Some(Self(ONE_KEY_REFUSED)),
            (Some(String::KIND), _) => Some(Self(profile.keyed)),
            _ => None,
        }
    }

    fn show(self) -> String {
        format!("{:.2}", self.0)
    }

    fn is_met(self, cell: &Cell) -> bool {
        cell.ratio().quartiles().0 <= self.0
    }
}

/// Measures, prints the report, and writes it with its pictures.
pub(crate) fn write(effort: &Effort, profile: &Profile) -> Result<()> {
    let (cells, bytes, text) = measure(effort, profile)?;
    println!("{text}");
    fs::create_dir_all(FOLDER)?;
    let Profile { file, .. } = profile;
    if *file != crate::RELEASE.file {
        fs::write(file, text)?;
        eprintln!("wrote {file}");
        return Ok(());
    }
    let mut pictures = String::from("## Pictures\n\n");
    for (name, title, svg) in picture::all(&cells, &bytes) {
        let path = Path::new(FOLDER).join(name);
        fs::write(&path, svg)?;
        writeln!(pictures, "![{title}]({})\n", path.display())?;
    }
    fs::write(file, format!("{text}\n{}\n", pictures.trim_end()))?;
    eprintln!("wrote {file} and {FOLDER}");
    Ok(())
}

/// Measures, and prints the report.
pub(crate) fn print(effort: &Effort, profile: &Profile) -> Result<()> {
    let (_, _, text) = measure(effort, profile)?;
    println!("{text}");
    Ok(())
}

/// Returns the date, the machine and the versions of what is compared.
pub(crate) fn host(profile: &Profile) -> String {
    host::describe("limiter-core", profile.name, PEERS, include_str!("../../Cargo.lock"))
}

fn measure(effort: &Effort, profile: &Profile) -> Result<(Vec<Cell>, Vec<Bytes>, String)> {
    let host = host(profile);
    let bytes = bytes::measure(effort)?;
    let operations = operations::measure(effort);
    let cells = cells::all(effort)?;
    let in_flight = in_flight::measure(effort);
    let text = render(effort, profile, &host, &cells, &bytes, &operations, &in_flight)?;
    Ok((cells, bytes, text))
}

fn render(
    effort: &Effort,
    profile: &Profile,
    host: &str,
    cells: &[Cell],
    bytes: &[Bytes],
    operations: &[Measured],
    in_flight: &[in_flight::Cell],
) -> Result<String> {
    let mut text = format!(
        "# Benchmarks of the limiters in memory\n\n\
         Written by `cargo xtask bench {}`. Do not edit.\n\n{host}\n\
         All limiters run in one process. Each cell has {} rounds; in each round every limiter has a \
         turn of {} ms, and each round begins with the next limiter. A figure is the median of the \
         rounds, with the range of the middle half in parentheses. A ratio is the median of the \
         ratios of single rounds.\n\n\
         A check is one call with one permit under GCRA, or the crate's default algorithm if it has \
         no GCRA. With two threads, the figure is the time of a check on one thread while the other \
         one checks too.\n\n",
        effort.name,
        effort.rounds,
        effort.turn.as_millis(),
    );
    targets(&mut text, profile, cells, bytes, operations)?;
    text += "## One key for all\n\nns a check. Ours has room for one key and checks `\"all\"`; the others have a \
             limiter without keys. Quotas: 5,000,000/s with a burst of 4 billion, and 1/h for \
             refusals. leaky-bucket reads no clock as long as it has permits.\n\n";
    write!(text, "{}", table(profile, cells.iter().filter(|cell| cell.kind.is_none())))?;
    let mut kinds: Vec<&str> = cells.iter().filter_map(|cell| cell.kind).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = || cells.iter().filter(|cell| cell.kind == Some(kind));
        writeln!(
            text,
            "\n## Keyed by {kind}\n\nns a check. Quotas as above. Keys are read in the order in which \
             they are checked, so a key itself is in the cache. Ours has room for as many keys as \
             there are, and for 100,000 at least.\n"
        )?;
        write!(
            text,
            "{}",
            table(profile, of_kind().filter(|cell| cell.outcome != Outcome::Fresh))
        )?;
        if of_kind().any(|cell| cell.outcome == Outcome::Warm) {
            text += "\nThe warm table has room for 1,000,000 keys. Ten generations of 500,000 other keys, \
                     each of which recovered before the next, have filled it before.\n";
        }
        writeln!(
            text,
            "\nA flood: each check has a fresh key, under 100/min. Ours and rate-net have room for \
             1,000,000 keys and are full; governor grows.\n"
        )?;
        write!(
            text,
            "{}",
            table(profile, of_kind().filter(|cell| cell.outcome == Outcome::Fresh))
        )?;
    }
    writeln!(
        text,
        "\n## Other operations\n\nOurs alone, on 10,000 {} keys, one thread.\n",
        String::KIND
    )?;
    write!(text, "{}", operations::table(operations))?;
    write!(
        text,
        "\n## Requests in flight\n\n{}\n\n{}",
        in_flight::CAPTION,
        in_flight::table(in_flight)
    )?;
    writeln!(
        text,
        "\n## Bytes a key\n\nThe growth of the resident memory of a process of its own, by {} keys of \
         16 bytes.\n",
        effort.bytes
    )?;
    let mut table = Table::new(&["limiter", "bytes", "target"]);
    for (index, Bytes { name, bytes }) in bytes.iter().enumerate() {
        let target = match *name {
            bytes::ONE_KEY => format!("{MOST_BYTES_ALONE:.0}"),
            _ if index == 0 => format!("{MOST_BYTES:.0}"),
            _ => String::new(),
        };
        table.row([(*name).to_owned(), format!("{bytes:.1}"), target]);
    }
    write!(text, "{table}")?;
    Ok(text)
}

/// Appends which targets are missed.
fn targets(
    text: &mut String,
    profile: &Profile,
    cells: &[Cell],
    bytes: &[Bytes],
    operations: &[Measured],
) -> Result<()> {
    let of_cell = |cell| Some((cell, Target::of(cell, profile)?));
    let targets: Vec<(&Cell, Target)> = cells.iter().filter_map(of_cell).collect();
    let missed = || targets.iter().filter(|(cell, target)| !target.is_met(cell));
    writeln!(
        text,
        "## Targets\n\nRatio to governor, at most: keyed by {} {:.2}, with one key for all {ONE_KEY_ADMITTED:.2}, \
         or {ONE_KEY_REFUSED:.2} where it is refused, and in a flood of fresh keys {FRESH:.2}. A key: \
         {MOST_BYTES:.0} bytes; a limiter with room for one key: {MOST_BYTES_ALONE:.0}.\n\n{} of {} cells miss their target.\n",
        String::KIND,
        profile.keyed,
        missed().count(),
        targets.len(),
    )?;
    if missed().next().is_some() {
        let mut table = Table::new(&["missed", "ratio to governor", "ns", "target"]);
        for (cell, target) in missed() {
            let nanos = cell.measured[0].nanos.show(1.0, 1);
            table.row([cell.name(), cell.ratio().show(1.0, 2), nanos, target.show()]);
        }
        writeln!(text, "{table}")?;
    }
    for (index, Bytes { name, bytes }) in bytes.iter().enumerate() {
        let (what, most) = match *name {
            bytes::ONE_KEY => ("A limiter with room for one key", MOST_BYTES_ALONE),
            _ if index == 0 => ("A key", MOST_BYTES),
            _ => continue,
        };
        let verdict = if *bytes <= most { "meets" } else { "misses" };
        writeln!(text, "{what} takes {bytes:.1} bytes, which {verdict} its target.\n")?;
    }
    let missed = operations::missed(operations);
    if !missed.is_empty() {
        writeln!(text, "Other operations that miss their target:\n\n{missed}")?;
    }
    Ok(())
}

/// Returns a table of cells that have the same limiters.
fn table<'a>(profile: &Profile, cells: impl Iterator<Item = &'a Cell>) -> Table {
    let cells: Vec<&Cell> = cells.collect();
    let names = cells.first().map(|cell| cell.measured.iter().map(|measured| measured.name));
    let mut head = vec!["keys", "visits", "checks", "threads"];
    head.extend(names.into_iter().flatten());
    head.extend(["ratio to governor", "target"]);
    let mut table = Table::new(&head);
    for cell in cells {
        let keys = if cell.kind.is_none() { "-".to_owned() } else { thousands(cell.keys) };
        let (pattern, outcome) = (cell.pattern.name().to_owned(), cell.outcome.name().to_owned());
        let mut row = vec![keys, pattern, outcome, cell.threads.to_string()];
        row.extend(cell.measured.iter().map(|measured| measured.nanos.show(1.0, 1)));
        let target = Target::of(cell, profile).map_or_else(String::new, |target| {
            let miss = if target.is_met(cell) { "" } else { ", missed" };
            format!("{}{miss}", target.show())
        });
        row.extend([cell.ratio().show(1.0, 2), target]);
        table.row(row);
    }
    table
}

/// Returns a number with commas.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
