//! What many runs have found together.

use std::{collections::BTreeMap, time::Duration};

use limiter_sim::{Fault, Micros, Report, Settings};

/// What callers do in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Limiters,
    InFlight,
}

/// What many runs have found.
#[derive(Default)]
pub(super) struct Total {
    runs: u64,
    simulated: Micros,
    decisions: u64,
    faults: BTreeMap<Fault, u64>,
    violations: usize,
    /// The settings of the runs with violations, in the order in which they ended.
    pub(super) failed: Vec<Settings>,
}

impl Kind {
    /// Returns the kind of a run.
    pub(super) const fn of(settings: &Settings) -> Self {
        if settings.in_flight { Self::InFlight } else { Self::Limiters }
    }

    /// Returns what follows the seed in a message.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Limiters => "",
            Self::InFlight => " with requests in flight",
        }
    }

    /// Returns the option by which a run is repeated.
    const fn option(self) -> &'static str {
        match self {
            Self::Limiters => "",
            Self::InFlight => " --in-flight",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Limiters => "Limiters",
            Self::InFlight => "Requests in flight",
        }
    }
}

impl Total {
    pub(super) fn add(&mut self, report: &Report, settings: &Settings) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.decisions += report.decisions;
        self.violations += report.violations.len();
        if !report.violations.is_empty() {
            self.failed.push(settings.clone());
        }
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    /// Returns the figures in one line.
    pub(super) fn line(&self, took: Duration, threads: usize) -> String {
        let (simulated, took) = (self.simulated / 1_000_000, took.as_secs().max(1));
        let Self { runs, decisions, violations, .. } = self;
        format!(
            "{runs} runs, {:.1} simulated hours, {decisions} decisions, {} faults, {violations} violations; {} \
             simulated seconds and {} decisions a second by {threads} threads",
            self.hours(),
            self.number_of_faults(),
            simulated / took,
            decisions / took,
        )
    }

    /// Returns the figures as a section of a page.
    pub(super) fn section(&self, kind: Kind) -> String {
        let mut text = format!(
            "## {}\n\n{} runs, {} faults, {:.1} simulated hours, {} decisions, {} violations\n\n\
             | fault | times |\n|---|---:|\n",
            kind.heading(),
            grouped(self.runs),
            grouped(self.number_of_faults()),
            self.hours(),
            grouped(self.decisions),
            self.violations,
        );
        for (fault, count) in &self.faults {
            text += &format!("| {fault} | {} |\n", grouped(*count));
        }
        text
    }

    /// Prints how often each fault happened.
    pub(super) fn print_faults(&self) {
        for (fault, count) in &self.faults {
            println!("{count:>9}  {fault}");
        }
    }

    /// Prints the seeds with violations.
    pub(super) fn print_failed(&self) {
        if !self.failed.is_empty() {
            let name =
                |settings: &Settings| format!("{}{}", settings.seed, Kind::of(settings).option());
            let failed: Vec<String> = self.failed.iter().map(name).collect();
            println!("seeds with violations: {}", failed.join(", "));
        }
    }

    fn number_of_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    fn hours(&self) -> f64 {
        Duration::from_micros(self.simulated).as_secs_f64() / 3_600.0
    }
}

/// Returns a number with commas, such as `1,234`.
fn grouped(number: u64) -> String {
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
