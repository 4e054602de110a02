//! Whether requests in flight keep their limits, by what their holders do.
//!
//! What was asked for before a key was void counts again an expiry later: by then each permit was renewed on what the
//! servers have, or is lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::vocabulary::{Micros, ProcessId, Subject};

/// A request at work, whose permit the store has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) process: ProcessId,
    pub(crate) subject: Subject,
    pub(crate) limit: u32,
    /// When it asked to enter.
    pub(crate) asked: Micros,
}

/// What is known of requests in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    work: BTreeMap<u64, Work>,
    begun: u64,
    /// How long permits last, by the index of the limiter.
    pub(crate) expiries: BTreeMap<usize, Micros>,
    stopped: BTreeSet<ProcessId>,
    /// Nothing counts that was asked for before: of any key, of one, and of a process.
    void_until: Micros,
    void_subjects: BTreeMap<Subject, Micros>,
    void_processes: BTreeMap<ProcessId, Micros>,
    /// How many holders of each process and limiter know that their permit is lost.
    pub(crate) lost: BTreeMap<(ProcessId, usize), u64>,
}

impl InFlight {
    /// Notes that a request is at work, and returns its number.
    pub(crate) fn begins(&mut self, work: Work) -> u64 {
        self.begun += 1;
        self.work.insert(self.begun, work);
        self.begun
    }

    /// Notes that work has ended, or that its holder knows that the permit is lost.
    pub(crate) fn ends(&mut self, number: u64) {
        self.work.remove(&number);
    }

    /// Returns how many requests are at work.
    pub(crate) fn at_work(&self) -> usize {
        self.work.len()
    }

    /// Notes that a process runs or not. While it does not, it can't know what it has lost.
    pub(crate) fn runs(&mut self, process: ProcessId, runs: bool) {
        if runs {
            self.stopped.remove(&process);
        } else {
            self.stopped.insert(process);
        }
    }

    pub(super) fn voids(&mut self, subject: Option<Subject>, until: Micros) {
        let void = match subject {
            Some(subject) => self.void_subjects.entry(subject).or_default(),
            None => &mut self.void_until,
        };
        *void = until.max(*void);
    }

    pub(super) fn suspends(&mut self, process: ProcessId, until: Micros) {
        self.void_processes.insert(process, until);
    }

    /// Returns a key that has more requests at work than may be, in words.
    pub(crate) fn over(&self, now: Micros) -> Option<(Subject, String)> {
        let mut limits: BTreeMap<Subject, Vec<u32>> = BTreeMap::new();
        for work in self.work.values().filter(|work| self.counts(work, now)) {
            limits.entry(work.subject).or_default().push(work.limit);
        }
        limits.into_iter().find_map(|(subject, mut limits)| {
            limits.sort_unstable();
            let over = (1..).zip(&limits).find(|(at_work, limit)| at_work > *limit);
            let words = |(at_work, limit)| {
                format!("{at_work} requests are in flight that entered under {limit} or less")
            };
            over.map(|over| (subject, words(over)))
        })
    }

    fn counts(&self, work: &Work, now: Micros) -> bool {
        let expiry = self.expiries.get(&work.subject.limiter).copied().unwrap_or(0);
        let void = [
            Some(&self.void_until),
            self.void_subjects.get(&work.subject),
            self.void_processes.get(&work.process),
        ];
        !self.stopped.contains(&work.process)
            && void
                .into_iter()
                .flatten()
                .all(|until| work.asked >= *until || now > until.saturating_add(expiry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Subject = Subject { limiter: 0, key: 0 };

    #[test]
    fn each_limit_holds_for_those_that_entered_under_it_or_a_lower_one() {
        let mut in_flight = InFlight::default();
        let mut begin = |process, limit, asked| {
            let work = Work { process: ProcessId(process), subject: KEY, limit, asked };
            in_flight.begins(work);
            in_flight.over(asked).is_some()
        };
        assert!(!begin(1, 3, 10) && !begin(1, 3, 11) && !begin(1, 2, 12) && !begin(2, 4, 13));
        assert!(begin(2, 2, 14) || begin(2, 2, 15));
    }

    #[test]
    fn what_a_process_can_not_know_does_not_count() {
        let expiries = BTreeMap::from([(0, 10)]);
        let mut in_flight = InFlight { expiries, ..InFlight::default() };
        let work =
            |process, asked| Work { process: ProcessId(process), subject: KEY, limit: 1, asked };
        let first = in_flight.begins(work(1, 10));
        in_flight.begins(work(2, 20));
        assert!(in_flight.over(25).is_some());
        in_flight.runs(ProcessId(1), false);
        assert!(in_flight.over(25).is_none());
        in_flight.runs(ProcessId(1), true);
        in_flight.suspends(ProcessId(1), 15);
        assert!(in_flight.over(25).is_none());
        in_flight.suspends(ProcessId(1), 5);
        in_flight.voids(Some(KEY), 15);
        assert!(in_flight.over(25).is_none());
        assert!(in_flight.over(26).is_some(), "an expiry later");
        in_flight.begins(work(1, 20));
        assert!(in_flight.over(25).is_some());
        in_flight.ends(first);
        assert_eq!(in_flight.at_work(), 2);
    }
}
