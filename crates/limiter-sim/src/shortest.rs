//! The shortest run of a seed that still has a violation.

use crate::{
    fault::Fault,
    run::{Report, run},
    settings::Settings,
};

/// The shortest run of a seed that still has a violation.
#[derive(Clone, Debug)]
pub struct Shortest {
    /// The settings that repeat it.
    pub settings: Settings,
    /// What it found.
    pub report: Report,
}

/// Returns the shortest run with a violation, `None` if the settings have none.
///
/// The faults end as early as possible, to the millisecond, and kinds that the violation does not need are left out. Both
/// are searched step by step, so a shorter run may exist that is not near.
#[must_use]
pub fn shortest(settings: &Settings) -> Option<Shortest> {
    let mut shortest = failing(settings.clone())?;
    shortest.end_early();
    shortest.leave_out();
    shortest.end_early();
    Some(shortest)
}

/// Returns a run if it has a violation.
fn failing(settings: Settings) -> Option<Shortest> {
    let report = run(&settings);
    (!report.violations.is_empty()).then_some(Shortest { settings, report })
}

impl Shortest {
    /// Lets the faults end as early as possible, by bisection.
    fn end_early(&mut self) {
        // The first length that may fail.
        let mut least = 0;
        while least + 1_000 <= self.settings.faults_for {
            let middle = least.midpoint(self.settings.faults_for);
            match failing(Settings { faults_for: middle, ..self.settings.clone() }) {
                Some(shorter) => *self = shorter,
                None => least = middle + 1,
            }
        }
    }

    /// Leaves out each kind of fault without which there still is a violation.
    fn leave_out(&mut self) {
        let kinds: Vec<Fault> = self.report.faults.keys().copied().collect();
        for kind in kinds {
            let mut fewer = self.settings.clone();
            fewer.without.push(kind);
            if let Some(found) = failing(fewer) {
                *self = found;
            }
        }
    }

    /// Returns the options of the program that repeat it.
    #[must_use]
    pub fn options(&self) -> String {
        let Settings { seed, processes, faults_for, without, wrong } = &self.settings;
        let mut options = format!("--seed {seed} --faults-for {faults_for}");
        if let Some(processes) = processes {
            options += &format!(" --processes {processes}");
        }
        if !without.is_empty() {
            let names: Vec<String> = without.iter().map(|fault| fault.name()).collect();
            options += &format!(" --without {}", names.join(","));
        }
        if let Some(wrong) = wrong {
            options += &format!(" --wrong {}", wrong.name());
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrong::Wrong;

    fn settings(wrong: Option<Wrong>) -> Settings {
        let (processes, faults_for) = (Some(1), 1_000_000);
        Settings { seed: 1, processes, faults_for, wrong, ..Settings::default() }
    }

    #[test]
    fn a_shorter_run_still_fails_and_one_that_ends_earlier_does_not() {
        let wrong = settings(Some(Wrong::NeverReconnects));
        let whole = run(&wrong);
        let Shortest { settings, report } = shortest(&wrong).unwrap();
        assert!(!report.violations.is_empty());
        assert!(settings.faults_for < wrong.faults_for, "{settings:?}");
        assert!(report.faults.values().sum::<u64>() < whole.faults.values().sum(), "{report}");
        assert_eq!(run(&settings).hash, report.hash);
        if let Some(earlier) = settings.faults_for.checked_sub(1_000) {
            let earlier = run(&Settings { faults_for: earlier, ..settings });
            assert!(earlier.violations.is_empty(), "{earlier}");
        }
    }

    #[test]
    fn a_seed_without_violation_has_no_shorter_run() {
        let right = Settings { faults_for: 100_000, ..settings(None) };
        assert!(shortest(&right).is_none());
    }

    #[test]
    fn options_repeat_a_run() {
        let settings = Settings {
            without: vec![Fault::RequestLost, Fault::Stepped],
            ..settings(Some(Wrong::NeverReconnects))
        };
        let report = run(&Settings { faults_for: 0, ..settings.clone() });
        assert_eq!(
            Shortest { settings, report }.options(),
            "--seed 1 --faults-for 1000000 --processes 1 --without request-lost,server-clock-stepped --wrong never-reconnects"
        );
    }
}
