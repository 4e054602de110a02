//! Whether what charged nothing, by its outcome, has charged nothing at the server.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    executor::{Micros, ProcessId},
    log::Subject,
};

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

/// The sending of a call that changed a key, or the time in which none may have been sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    process: ProcessId,
    subject: Subject,
    from: Micros,
    to: Micros,
}

/// The operations under way, the calls that changed something, and the operations that have charged nothing.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    operations: BTreeMap<(ProcessId, Subject), Operations>,
    changes: VecDeque<Sent>,
    uncharged: VecDeque<Sent>,
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

    /// Returns whether a call for an operation, which has charged nothing, has changed its key. Calls that are executed
    /// later are found by [`changed`](Self::changed).
    pub(crate) fn is_charged(&mut self, begun: Begun, now: Micros) -> bool {
        let Begun { process, subject, at, number, is_alone } = begun;
        let operations = self.operations.get(&(process, subject)).copied().unwrap_or_default();
        if !is_alone || operations.begun != number {
            return false;
        }
        let uncharged = Sent { process, subject, from: at, to: now };
        let is_charged = self.changes.iter().any(|change| change.is_within(&uncharged));
        self.uncharged.retain(|other| other.to + LONGEST > now);
        self.uncharged.push_back(uncharged);
        is_charged
    }

    /// Notes that a call has changed a key, and returns whether it was sent for an operation that has charged nothing.
    pub(crate) fn changed(
        &mut self,
        process: ProcessId,
        subject: Subject,
        sent: Micros,
        now: Micros,
    ) -> bool {
        while self.changes.front().is_some_and(|change| change.to + 1_000_000 < now) {
            self.changes.pop_front();
        }
        let change = Sent { process, subject, from: sent, to: sent };
        self.changes.push_back(change);
        self.uncharged.iter().any(|uncharged| change.is_within(uncharged))
    }
}

impl Sent {
    fn is_within(&self, time: &Self) -> bool {
        let is_same = (self.process, self.subject) == (time.process, time.subject);
        is_same && (time.from..=time.to).contains(&self.from)
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
        assert!(charges.is_charged(begun, 20));

        let begun = charges.begins(PROCESS, KEY, 30);
        charges.ends(begun);
        assert!(!charges.is_charged(begun, 40));
        assert!(!charges.changed(ProcessId(2), KEY, 35, 50));
        assert!(!charges.changed(PROCESS, KEY, 41, 50));
        assert!(charges.changed(PROCESS, KEY, 35, 50));
    }

    #[test]
    fn a_charge_may_be_that_of_another_operation() {
        let mut charges = Charges::default();
        let (first, second) = (charges.begins(PROCESS, KEY, 10), charges.begins(PROCESS, KEY, 15));
        charges.changed(PROCESS, KEY, 16, 18);
        for begun in [first, second] {
            charges.ends(begun);
            assert!(!charges.is_charged(begun, 20));
        }
        let left = charges.begins(PROCESS, KEY, 30);
        charges.ends(left);
        charges.disturbed(left, 31);
        let begun = charges.begins(PROCESS, KEY, 40);
        charges.changed(PROCESS, KEY, 41, 42);
        charges.ends(begun);
        assert!(!charges.is_charged(begun, 50));
    }
}
