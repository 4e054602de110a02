//! The figures of scripts, and their table.

use anyhow::{Context, Result};

use crate::{
    Bench, Effort,
    subjects::Traffic,
    table::{Sample, Table},
    targets::{FLOOR, PAIRS, Ratio},
};

/// The figures of one script.
pub(crate) struct Figures {
    pub(super) name: String,
    pub(super) traffic: Traffic,
    /// Decisions a second.
    pub(super) rate: Sample,
    /// Decisions for each second of the server's processor time.
    pub(super) busy_rate: Sample,
    /// The server's processor time divided by the time of the turn.
    pub(super) busy: Sample,
    /// The part of the decisions that are admissions. `None` if the replies are not decisions.
    pub(super) admitted: Option<Sample>,
}

impl Figures {
    pub(super) fn new(name: String, traffic: Traffic) -> Self {
        let [rate, busy_rate, busy] = Default::default();
        Self { name, traffic, rate, busy_rate, busy, admitted: None }
    }
}

/// Returns the ratios that have a target, of the scripts that were measured.
pub(crate) fn ratios(bench: &Bench, all: &[Figures]) -> Result<Vec<Ratio>> {
    let mut ratios = Vec::new();
    for pair in PAIRS.iter().filter(|pair| bench.is_named(pair.script)) {
        let script = all.iter().find(|figures| figures.name == pair.script);
        let script = script.with_context(|| format!("no script `{}`", pair.script))?;
        let reference = reference(all, script, pair.reference);
        let reference = reference.with_context(|| format!("no script `{}`", pair.reference))?;
        let by_rate = script.rate.over(&reference.rate);
        ratios.push(pair.ratio(by_rate, script.busy_rate.over(&reference.busy_rate)));
    }
    Ok(ratios)
}

/// Returns the script called `name` that has as many keys as `script`.
fn reference<'a>(all: &'a [Figures], script: &Figures, name: &str) -> Option<&'a Figures> {
    all.iter().find(|figures| figures.name == name && figures.traffic == script.traffic)
}

/// Prints the scripts' speed.
pub(crate) fn print(bench: &Bench, all: &[Figures]) {
    let Effort { many, few, .. } = bench.effort;
    println!(
        "## Scripts\n\nThousands of decisions a second by EVALSHA on one pipelined connection: the \
         median of {} rounds with {} keys and of {} rounds with {} keys, and the range of the middle \
         half of them. The floor is TIME, GET and SET with PX, without logic. The script by redis_rate's rules was written for this bench by \
         the published rules of the Go library redis_rate 10 (`AllowN`): the same calls, arithmetic, \
         arguments and replies, with the keys of the other scripts. The shortest GCRA, redis_rate's \
         rules and the classic scripts trust the clock and the value that they read, and assume that \
         a quota never changes. A ratio is that of a script's rate to the rate of the floor with as \
         many keys in the same round: by decisions a second, and by decisions for each second of the \
         server's processor time, which depends less on other processes. With {} keys, slots fill \
         and expire during a turn; a key has at most as many slots as checks within a window of \
         500 ms.\n",
        many.number,
        Traffic::Many.keys(),
        few.number,
        Traffic::Few.keys(),
        Traffic::Few.keys(),
    );
    let mut table = Table::new(&[
        "script",
        "keys",
        "1,000/s",
        "to the floor",
        "by the server's time",
        "server busy",
        "admitted",
    ]);
    for figures in all {
        let floor = reference(all, figures, FLOOR);
        let ratio = |pick: fn(&Figures) -> &Sample| {
            floor.map_or(String::new(), |floor| pick(figures).over(pick(floor)).show(1.0, 2))
        };
        table.row([
            figures.name.clone(),
            figures.traffic.keys().to_string(),
            figures.rate.show(1e3, 0),
            ratio(|figures| &figures.rate),
            ratio(|figures| &figures.busy_rate),
            percent(&figures.busy),
            figures.admitted.as_ref().map_or(String::new(), percent),
        ]);
    }
    table.print();
}

fn percent(sample: &Sample) -> String {
    format!("{:.0} %", sample.quartiles().0 * 100.0)
}
