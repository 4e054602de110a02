//! The report: a table for each cell, and the targets that are missed.

use std::fmt::Write as _;

use anyhow::Result;
use limiter_bench_layer::{
    cells::{CELLS, Cell, FIELDS_TARGETS, PLAIN_TARGETS, Target},
    contenders::{OURS, REFERENCE},
};

use crate::{
    Effort, Profile, host,
    measure::{self, Contender, Measured},
    table::{Sample, Table},
};

const PEERS: &[&str] =
    &["tower_governor", "axum-governor", "rate-net", "governor", "axum", "tower", "http"];

/// One row of a table.
struct Row<'a> {
    contender: &'a Contender,
    ratio: Option<Sample>,
    allocations: Option<f64>,
    target: Option<Target>,
    profile: Profile,
}

/// A bound, and what was measured.
struct Check {
    bound: String,
    measured: String,
    is_missed: bool,
}

impl Row<'_> {
    fn checks(&self) -> Vec<Check> {
        let Some(target) = self.target else { return Vec::new() };
        let check = |figure: Option<f64>, bound: Option<f64>, unit, decimals| {
            let (figure, bound) = (figure?, bound?);
            let show = |value: f64| format!("{value:.decimals$} {unit}");
            let is_missed = figure > bound;
            Some(Check { bound: show(bound), measured: show(figure), is_missed })
        };
        let bound = target.ratios.and_then(|ratios| ratios.get(self.profile.index).copied());
        let ratio = self.ratio.as_ref().map(|ratio| ratio.quartiles().0);
        let nanos = Some(self.contender.added.quartiles().0);
        let checks = [
            check(ratio, bound, "of tower_governor", 2),
            check(nanos, target.nanos, "ns", 0),
            check(self.allocations, target.allocations, "allocations", 0),
        ];
        checks.into_iter().flatten().collect()
    }
}

/// Measures all cells, and returns the report.
pub(crate) fn measure(effort: &Effort, profile: Profile) -> Result<String> {
    let lock = include_str!("../../Cargo.lock");
    let host = host::describe("limiter-tower", profile.name, PEERS, lock);
    let allocations = measure::allocations()?;
    let (mut tables, mut missed, mut targets) = (String::new(), Vec::new(), 0);
    for (index, cell) in CELLS.iter().enumerate() {
        eprintln!("{}", cell.name);
        let measured = measure::rounds(effort, cell)?;
        let count = |name: &str| allocations.get(&(index, name.to_owned())).copied();
        let rows = rows(cell, profile, &measured, count);
        for check in rows.iter().flat_map(Row::checks) {
            targets += 1;
            if check.is_missed {
                let Check { bound, measured, .. } = check;
                missed.push(format!("- {}: {measured}, and the target is {bound}", cell.name));
            }
        }
        let bare = measured.contenders.first().map(|bare| bare.nanos.show(1.0, 0));
        let bare = bare.unwrap_or_default();
        writeln!(tables, "\n## {}\n\nThe bare service takes {bare} ns a request.\n", cell.name)?;
        write!(tables, "{}", table(&rows))?;
    }
    let mut text = introduction(effort, profile, &host);
    writeln!(text, "{} of {targets} targets are missed.", missed.len())?;
    if !missed.is_empty() {
        writeln!(text, "\n{}", missed.join("\n"))?;
    }
    Ok(text + &tables)
}

fn introduction(effort: &Effort, profile: Profile, host: &str) -> String {
    let at = |ratios: [f64; 2]| ratios.get(profile.index).copied().unwrap_or_default();
    format!(
        "# Benchmarks of rate limit layers\n\n\
         Written by `cargo xtask bench {}`. Do not edit.\n\n{host}\n\
         All layers run in one process, each around the same inner service, which returns an empty \
         response at once. 10,000 peer addresses send requests, in the same order for all. Each \
         request is sent to a clone of the service, as axum does, except in the cells \"no clone\". \
         limiter-tower and tower_governor add 2 header fields to the response to an admitted \
         request, rate-net adds 3, and axum-governor adds 5. The inner service sends a `content-type` in the cells \
         with header fields, except in that of the empty header map.\n\n\
         Each cell has {} rounds; in each round every layer has a turn of {} ms, and each round \
         begins with the next layer. A figure is the processor time that a layer adds to a request: \
         its time less that of the bare service in the same round. It does not include other \
         processes' turns, nor the waiting of a thread that sleeps. It is the median of the rounds, \
         with the range of the middle half in parentheses. A ratio is the median of the ratios of \
         single rounds. With two threads, the figure is the time on one thread while the other one \
         sends requests too. Allocations are counted in a process of their own, for addresses that \
         the limiter has stored before.\n\n\
         For a refusal, tower_governor and axum-governor create a clock. Its constructor executes \
         `cpuid`, which is slow in a virtual machine.\n\n\
         ## Targets\n\n\
         At most, for \"{OURS}\" on one thread: {:.2} of {REFERENCE} without header fields and \
         {:.2} with them; no allocation without header fields, 2 with them, 4 into an empty header \
         map. A refusal takes at most 500 ns.\n\n",
        effort.name,
        effort.rounds,
        effort.turn.as_millis(),
        at(PLAIN_TARGETS),
        at(FIELDS_TARGETS),
    )
}

/// Returns the rows of a cell, without the bare service.
fn rows<'a>(
    cell: &Cell,
    profile: Profile,
    measured: &'a Measured,
    count: impl Fn(&str) -> Option<f64>,
) -> Vec<Row<'a>> {
    let reference = measured.contenders.iter().find(|contender| contender.name == REFERENCE);
    let row = |contender: &'a Contender| Row {
        contender,
        ratio: reference.map(|reference| contender.added.over(&reference.added)),
        allocations: count(contender.name),
        target: cell.target.filter(|_| contender.name == OURS),
        profile,
    };
    measured.contenders.iter().skip(1).map(row).collect()
}

fn table(rows: &[Row<'_>]) -> Table {
    let ratio = format!("ratio to {REFERENCE}");
    let mut table = Table::new(&["layer", "ns added", &ratio, "allocations", "targets"]);
    for row in rows {
        let show = |Check { bound, is_missed, .. }| bound + if is_missed { ", missed" } else { "" };
        let targets: Vec<String> = row.checks().into_iter().map(show).collect();
        table.row([
            row.contender.name.to_owned(),
            row.contender.added.show(1.0, 0),
            row.ratio.as_ref().map_or_else(String::new, |ratio| ratio.show(1.0, 2)),
            row.allocations.map_or_else(String::new, |count| format!("{count:.2}")),
            targets.join("; "),
        ]);
    }
    table
}
