//! What many runs have found together.

use std::{collections::BTreeMap, time::Duration};

use limiter_sim::{Fault, Micros, Report};

/// What many runs have found.
#[derive(Default)]
pub(super) struct Total {
    runs: u64,
    simulated: Micros,
    decisions: u64,
    /// How many permits were admitted, and how many of them were checked against a bound.
    permits: (u64, u64),
    faults: BTreeMap<Fault, u64>,
    /// The seeds with violations, in the order in which they ended.
    pub(super) failed: Vec<u64>,
}

impl Total {
    pub(super) fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.simulated += report.simulated;
        self.decisions += report.decisions;
        self.permits.0 += report.permits.0;
        self.permits.1 += report.permits.1;
        if !report.violations.is_empty() {
            self.failed.push(report.seed);
        }
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    /// Returns the figures in one line.
    pub(super) fn line(&self) -> String {
        let hours = Duration::from_micros(self.simulated).as_secs_f64() / 3_600.0;
        let (admitted, checked) = self.permits;
        format!(
            "{} runs, {hours:.1} simulated hours, {} decisions, {} faults, {} permits admitted, {} % of them checked \
             against a bound, {} seeds with violations",
            grouped(self.runs),
            grouped(self.decisions),
            grouped(self.faults.values().sum()),
            grouped(admitted),
            100 * checked / admitted.max(1),
            self.failed.len(),
        )
    }

    /// Returns how often each fault happened, as a table.
    pub(super) fn table(&self) -> String {
        let rows =
            self.faults.iter().map(|(fault, it)| format!("| {fault} | {} |\n", grouped(*it)));
        format!("| fault | times |\n|---|---:|\n{}", rows.collect::<String>())
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
