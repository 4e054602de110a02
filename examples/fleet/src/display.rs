//! What the program shows: the rates while the fleet checks, and a summary.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    iter::once,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    fleet::Change,
    options::Options,
    totals::{Report, Totals},
};

/// How many reports a rate is measured over, besides the first.
const MEASURED: usize = 5;

/// When to draw after the processes have reported, which they do at the same moments.
const AFTER_REPORTS: Duration = Duration::from_millis(20);

/// How many cells show a rate that is the limit.
const CELLS: u32 = 30;

#[derive(Debug)]
pub(crate) struct Display<'a> {
    options: &'a Options,
    processes: Vec<Shown>,
    /// When the fleet began, which is before the first check.
    start: Instant,
    /// When the last process had made its last check.
    end: Instant,
    every: Duration,
    next: Instant,
    is_terminal: bool,
    /// How many lines to replace.
    drawn: usize,
}

/// What is known of a process.
#[derive(Clone, Debug, Default)]
struct Shown {
    totals: Totals,
    /// How many were admitted, by the times of the last reports.
    admitted: VecDeque<(Instant, u64)>,
}

impl<'a> Display<'a> {
    /// Returns a display of a fleet that begins now.
    pub(crate) fn new(options: &'a Options) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let every = Duration::from_millis(if is_terminal { 200 } else { 1_000 });
        let start = Instant::now();
        let processes = vec![Shown::default(); options.processes as usize];
        let (end, next) = (start, start + every + AFTER_REPORTS);
        Self { options, processes, start, end, every, next, is_terminal, drawn: 0 }
    }

    /// Returns when to draw.
    pub(crate) fn next(&self) -> Option<Instant> {
        Some(self.next)
    }

    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    pub(crate) fn update(&mut self, change: &Change) {
        let Change::Reported { process, at, report } = change else { return };
        let Some(shown) = self.processes.get_mut(*process) else { return };
        match report {
            Report::Ready => {}
            Report::Checking(totals) => shown.measure(*at, totals),
            Report::Checked(totals) => {
                shown.measure(*at, totals);
                self.end = self.end.max(*at);
            }
            Report::Drained(totals) => shown.totals = *totals,
        }
    }

    /// Draws the rates: in place if this is a terminal, else as one more line.
    pub(crate) fn draw(&mut self, calls: u64) -> Result<()> {
        self.next += self.every;
        let seconds = self.start.elapsed().as_secs_f64();
        let rates: Vec<f64> = self.processes.iter().map(Shown::rate).collect();
        let all: f64 = rates.iter().sum();
        let trips = per(calls, self.totals().admitted);
        if !self.is_terminal {
            let each: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            let each = each.join(" + ");
            println!(
                "{seconds:4.1} s: {each} = {all:.0}/s admitted, {trips:.4} trips an admission"
            );
            return Ok(());
        }
        let mut text = String::new();
        if self.drawn > 0 {
            write!(text, "\x1b[{}A", self.drawn)?;
        }
        let names = (1..=rates.len()).map(|number| format!("process {number}"));
        let lines = names.chain(once("together".to_owned())).zip(rates.iter().chain(once(&all)));
        for (name, rate) in lines {
            let bar = bar(rate / self.options.rate as f64);
            writeln!(text, "\x1b[2K{name:11} {rate:8.0}/s  {bar}")?;
        }
        writeln!(text, "\x1b[2K{seconds:.1} s, {trips:.4} trips an admission")?;
        self.drawn = rates.len() + 2;
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        Ok(output.flush()?)
    }

    /// Returns the summary, and whether the fleet stayed within its limit.
    pub(crate) fn summary(&self, calls: u64) -> (String, bool) {
        let Totals { admitted, from_leases, refused, failed, leases, permits, unused, returned } =
            self.totals();
        let (rate, seconds) = (self.options.rate, (self.end - self.start).as_secs_f64());
        let bound = rate as f64 * (1.0 + seconds);
        let is_within = admitted as f64 <= bound;
        let used = 100.0 * admitted as f64 / bound;
        let checks = admitted + refused + failed;
        let trips = per(calls, admitted);
        let in_memory = 100.0 * per(from_leases, admitted);
        let mut lines = vec![
            (
                "admitted",
                format!("{admitted} of {checks} checks, {in_memory:.1} % of them from leases"),
            ),
            ("bound", format!("{bound:.0}: a burst of {rate}, and {rate}/s for {seconds:.3} s")),
            ("used", format!("{used:.1} % of the bound")),
            ("calls", format!("{calls} to the server")),
            ("trips", format!("{trips:.4} an admission")),
        ];
        if self.options.leases {
            let ended =
                format!("{permits} in {leases} leases: {unused} unused, {returned} returned");
            lines.push(("permits", ended));
        }
        if failed > 0 {
            lines.push(("failed", format!("{failed} checks, by an error of the server")));
        }
        if !is_within {
            lines.push(("EXCEEDED", format!("by {:.0} permits", admitted as f64 - bound)));
        }
        let lines = lines.iter().map(|(name, value)| format!("{name:9} {value}\n"));
        (once("\n".to_owned()).chain(lines).collect(), is_within)
    }

    fn totals(&self) -> Totals {
        self.processes.iter().map(|shown| shown.totals).sum()
    }
}

impl Shown {
    fn measure(&mut self, at: Instant, totals: &Totals) {
        self.totals = *totals;
        self.admitted.push_back((at, totals.admitted));
        if self.admitted.len() > MEASURED + 1 {
            self.admitted.pop_front();
        }
    }

    /// Returns how many were admitted a second.
    fn rate(&self) -> f64 {
        let (Some((from, before)), Some((to, after))) =
            (self.admitted.front(), self.admitted.back())
        else {
            return 0.0;
        };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds > 0.0 { (after - before) as f64 / seconds } else { 0.0 }
    }
}

/// Returns a quotient, or 0 of nothing.
fn per(number: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { number as f64 / of as f64 }
}

/// Returns a bar of a part of the limit, which may be twice the limit at most.
fn bar(part: f64) -> String {
    (0..2 * CELLS)
        .take_while(|cell| f64::from(*cell) + 0.5 < part * f64::from(CELLS))
        .map(|_| '█')
        .collect()
}
