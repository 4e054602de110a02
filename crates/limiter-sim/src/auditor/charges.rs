//! Whether the servers have written what callers were told: nothing, or once.

use std::collections::{BTreeMap, VecDeque};

use crate::vocabulary::{Micros, ProcessId, Subject};

/// For how long messages may be under way.
const LONGEST: Micros = 10_000_000;

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) of: (ProcessId, Subject),
    at: Micros,
    /// How many operations the process had begun on the key.
    number: u64,
    is_alone: bool,
}

/// What a process does with a key.
#[derive(Debug, Default)]
struct Operations {
    under_way: u64,
    begun: u64,
    /// Until when calls may be sent for operations that have ended.
    disturbed_until: Micros,
    /// When calls were sent that have changed the key.
    changes: VecDeque<Micros>,
    allowances: VecDeque<Allowance>,
}

/// An operation that was alone, and how many more calls for it may change its key.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    from: Micros,
    to: Micros,
    left: usize,
}

/// The operations of each process on each key, and the calls that changed something.
#[derive(Debug, Default)]
pub(crate) struct Charges(BTreeMap<(ProcessId, Subject), Operations>);

const OFTEN: &str =
    "a server has charged an operation that was `Unavailable`, or one operation twice";
const NEVER: &str = "an operation was admitted by the store, and no server has charged it";

impl Charges {
    pub(crate) fn begins(&mut self, of: (ProcessId, Subject), at: Micros) -> Begun {
        let operations = self.0.entry(of).or_default();
        operations.under_way += 1;
        operations.begun += 1;
        let is_alone = operations.under_way == 1 && operations.disturbed_until <= at;
        Begun { of, at, number: operations.begun, is_alone }
    }

    /// Notes that an operation's caller has left. It may still send calls.
    pub(crate) fn leaves(&mut self, begun: Begun, now: Micros) {
        let operations = self.0.entry(begun.of).or_default();
        operations.under_way -= 1;
        operations.disturbed_until = now + LONGEST;
        operations.begun += 1;
    }

    /// Notes that an operation has ended, whose calls have changed its key at least and at most so many times, if that is
    /// known. Returns what is wrong. Calls that are executed later are found by [`changed`](Self::changed).
    pub(crate) fn ends(
        &mut self,
        begun: Begun,
        now: Micros,
        times: Option<(usize, usize)>,
    ) -> Option<&'static str> {
        let operations = self.0.entry(begun.of).or_default();
        operations.under_way -= 1;
        let is_alone = begun.is_alone && operations.begun == begun.number;
        let (least, most) = times?;
        let within = begun.at..now;
        let changes = operations.changes.iter().filter(|sent| within.contains(sent)).count();
        if changes < least {
            return Some(NEVER);
        }
        if !is_alone {
            return None;
        }
        let left = most.saturating_sub(changes);
        operations.allowances.retain(|it| it.to + LONGEST >= now);
        operations.allowances.push_back(Allowance { from: begun.at, to: now, left });
        (changes > most).then_some(OFTEN)
    }

    /// Notes that a call has changed a key. Returns what is wrong if no operation allows that which has ended.
    pub(crate) fn changed(
        &mut self,
        of: (ProcessId, Subject),
        sent: Micros,
        now: Micros,
    ) -> Option<&'static str> {
        let operations = self.0.entry(of).or_default();
        operations.changes.retain(|sent| sent + LONGEST >= now);
        operations.changes.push_back(sent);
        let covers = |it: &&mut Allowance| (it.from..it.to).contains(&sent);
        let allowance = operations.allowances.iter_mut().find(covers)?;
        let is_allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        (!is_allowed).then_some(OFTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: (ProcessId, Subject) = (ProcessId(1), Subject { limiter: 0, key: 0 });

    #[test]
    fn a_charge_of_what_charged_nothing_is_found_before_and_after_the_outcome() {
        let mut charges = Charges::default();
        let begun = charges.begins(OF, 10);
        assert_eq!(charges.changed(OF, 11, 12), None);
        assert_eq!(charges.ends(begun, 20, Some((0, 0))), Some(OFTEN));

        let begun = charges.begins(OF, 30);
        assert_eq!(charges.ends(begun, 40, Some((0, 0))), None);
        assert_eq!(charges.changed((ProcessId(2), OF.1), 35, 50), None);
        assert_eq!(charges.changed(OF, 41, 50), None);
        assert_eq!(charges.changed(OF, 35, 50), Some(OFTEN));
    }

    #[test]
    fn a_call_that_is_executed_twice_or_never_is_found() {
        let mut charges = Charges::default();
        let begun = charges.begins(OF, 10);
        charges.changed(OF, 11, 12);
        assert_eq!(charges.ends(begun, 20, Some((1, 1))), None);
        assert_eq!(charges.changed(OF, 11, 30), Some(OFTEN));
        let begun = charges.begins(OF, 40);
        assert_eq!(charges.ends(begun, 50, Some((1, 1))), Some(NEVER));
    }

    #[test]
    fn a_charge_may_be_that_of_another_operation() {
        let mut charges = Charges::default();
        let (first, second) = (charges.begins(OF, 10), charges.begins(OF, 15));
        charges.changed(OF, 16, 18);
        for begun in [first, second] {
            assert_eq!(charges.ends(begun, 20, Some((0, 0))), None);
        }
        let left = charges.begins(OF, 30);
        charges.leaves(left, 31);
        let begun = charges.begins(OF, 40);
        charges.changed(OF, 41, 42);
        assert_eq!(charges.ends(begun, 50, Some((0, 0))), None);
    }
}
