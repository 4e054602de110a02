//! Whether operations have charged at the server what their outcomes say: nothing, or once at most.

use std::collections::{BTreeMap, VecDeque};

use crate::vocabulary::{Micros, ProcessId, Subject};

/// For how long messages may be under way.
const LONGEST: Micros = 10_000_000;

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) process: ProcessId,
    pub(crate) subject: Subject,
    at: Micros,
    /// How many operations the process had begun on the key.
    number: u64,
    is_alone: bool,
}

/// What a process does with a key.
#[derive(Clone, Copy, Debug, Default)]
struct Operations {
    under_way: u64,
    begun: u64,
    /// Until when calls may be sent for operations that have ended.
    disturbed_until: Micros,
}

/// A call that has changed a key.
#[derive(Clone, Copy, Debug)]
struct Change {
    process: ProcessId,
    subject: Subject,
    sent: Micros,
}

/// An operation that was alone, and how many more calls for it may change its key.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    process: ProcessId,
    subject: Subject,
    from: Micros,
    to: Micros,
    left: usize,
}

/// The operations under way, those that have ended, and the calls that changed something.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    operations: BTreeMap<(ProcessId, Subject), Operations>,
    changes: VecDeque<Change>,
    allowances: VecDeque<Allowance>,
}

impl Charges {
    pub(crate) fn begins(&mut self, process: ProcessId, subject: Subject, at: Micros) -> Begun {
        let operations = self.operations.entry((process, subject)).or_default();
        operations.under_way += 1;
        operations.begun += 1;
        let is_alone = operations.under_way == 1 && operations.disturbed_until <= at;
        Begun { process, subject, at, number: operations.begun, is_alone }
    }

    pub(crate) fn ends(&mut self, begun: Begun) {
        if let Some(operations) = self.operations.get_mut(&(begun.process, begun.subject)) {
            operations.under_way -= 1;
        }
    }

    /// Notes that an operation whose caller has left may still send calls.
    pub(crate) fn disturbed(&mut self, begun: Begun, now: Micros) {
        if let Some(operations) = self.operations.get_mut(&(begun.process, begun.subject)) {
            operations.disturbed_until = now + LONGEST;
            operations.begun += 1;
        }
    }

    /// Notes that calls for an operation that has ended may change its key so many times. Returns whether they did so more
    /// often. Calls that are executed later are found by [`changed`](Self::changed).
    pub(crate) fn allow(&mut self, begun: Begun, now: Micros, times: usize) -> bool {
        let Begun { process, subject, at, number, is_alone } = begun;
        let operations = self.operations.get(&(process, subject)).copied().unwrap_or_default();
        if !is_alone || operations.begun != number {
            return false;
        }
        let allowance = Allowance { process, subject, from: at, to: now, left: 0 };
        let changes = self.changes.iter().filter(|change| allowance.covers(change)).count();
        while self.allowances.front().is_some_and(|first| first.to + LONGEST < now) {
            self.allowances.pop_front();
        }
        let left = times.saturating_sub(changes);
        self.allowances.push_back(Allowance { left, ..allowance });
        changes > times
    }

    /// Notes that a call has changed a key, and returns whether no operation allows that which has ended.
    pub(crate) fn changed(
        &mut self,
        process: ProcessId,
        subject: Subject,
        sent: Micros,
        now: Micros,
    ) -> bool {
        while self.changes.front().is_some_and(|first| first.sent + LONGEST < now) {
            self.changes.pop_front();
        }
        let change = Change { process, subject, sent };
        self.changes.push_back(change);
        let mut allowances = self.allowances.iter_mut();
        let Some(allowance) = allowances.find(|allowance| allowance.covers(&change)) else {
            return false;
        };
        let is_allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        !is_allowed
    }
}

impl Allowance {
    fn covers(&self, change: &Change) -> bool {
        let is_same = (self.process, self.subject) == (change.process, change.subject);
        is_same && (self.from..self.to).contains(&change.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: ProcessId = ProcessId(1);
    const KEY: Subject = Subject(0);

    #[test]
    fn a_charge_of_what_charged_nothing_is_found_before_and_after_the_outcome() {
        let mut charges = Charges::default();
        let begun = charges.begins(PROCESS, KEY, 10);
        assert!(!charges.changed(PROCESS, KEY, 11, 12));
        charges.ends(begun);
        assert!(charges.allow(begun, 20, 0));

        let begun = charges.begins(PROCESS, KEY, 30);
        charges.ends(begun);
        assert!(!charges.allow(begun, 40, 0));
        assert!(!charges.changed(ProcessId(2), KEY, 35, 50));
        assert!(!charges.changed(PROCESS, KEY, 41, 50));
        assert!(charges.changed(PROCESS, KEY, 35, 50));
    }

    #[test]
    fn a_call_that_is_executed_twice_is_found() {
        let mut charges = Charges::default();
        let begun = charges.begins(PROCESS, KEY, 10);
        charges.changed(PROCESS, KEY, 11, 12);
        charges.ends(begun);
        assert!(!charges.allow(begun, 20, 1));
        assert!(charges.changed(PROCESS, KEY, 11, 30));
    }

    #[test]
    fn a_charge_may_be_that_of_another_operation() {
        let mut charges = Charges::default();
        let (first, second) = (charges.begins(PROCESS, KEY, 10), charges.begins(PROCESS, KEY, 15));
        charges.changed(PROCESS, KEY, 16, 18);
        for begun in [first, second] {
            charges.ends(begun);
            assert!(!charges.allow(begun, 20, 0));
        }
        let left = charges.begins(PROCESS, KEY, 30);
        charges.ends(left);
        charges.disturbed(left, 31);
        let begun = charges.begins(PROCESS, KEY, 40);
        charges.changed(PROCESS, KEY, 41, 42);
        charges.ends(begun);
        assert!(!charges.allow(begun, 50, 0));
    }
}
