//! Which operation a call is for, where permits are leased: calls are sent by tasks of their own, for several callers.
//!
//! A call is for an operation if that is the only one of its process that is under way on the key when the call is
//! sent, and no request without a caller may have sent it. There may be one in two cases. The process has just spent
//! permits of a lease, which may make it ask ahead, once more if the first call is not executed. Or an operation has
//! just ended without a reply of the store: the request for its permits has a deadline of its own, and may go on with a
//! call of another script. Refunds are left out, because what is left of a lease is given back without a caller.

use std::collections::{BTreeMap, BTreeSet};

use crate::vocabulary::{Micros, ProcessId, Subject};

/// For how long an operation and its calls may be under way.
const LONGEST: Micros = 20_000_000;

/// For how long calls may be sent for an operation whose caller has left, or by a process that was suspended meanwhile.
const SENT_WITHIN: Micros = 3_000_000;

/// For how long a request may send calls for which no caller waits: longer than a deadline.
const WITHOUT_CALLER: Micros = 300_000;

/// The operations and their calls.
#[derive(Debug, Default)]
pub(crate) struct Attributions {
    /// How many operations were begun.
    begun: u64,
    keys: BTreeMap<(ProcessId, Subject), Key>,
    operations: BTreeMap<u64, Operation>,
    calls: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Key {
    under_way: BTreeSet<u64>,
    /// Until when calls may be sent for which no caller waits: it has left or had no reply, or they ask ahead.
    shared_until: Micros,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    subject: Subject,
    begun: Micros,
    /// How many calls for it have changed the key, and how many may.
    changes: u64,
    most: u64,
}

impl Attributions {
    /// Notes that an operation begins, for which so many calls may change the key.
    pub(crate) fn begins(
        &mut self,
        process: ProcessId,
        subject: Subject,
        most: u64,
        now: Micros,
    ) -> u64 {
        while let Some(first) = self.operations.first_entry()
            && first.get().begun + LONGEST < now
        {
            first.remove();
        }
        while let Some(first) = self.calls.first_entry()
            && !self.operations.contains_key(first.get())
        {
            first.remove();
        }
        self.begun += 1;
        let operation = Operation { subject, begun: now, changes: 0, most };
        self.operations.insert(self.begun, operation);
        self.keys.entry((process, subject)).or_default().under_way.insert(self.begun);
        self.begun
    }

    /// Notes that permits of a lease were spent.
    pub(crate) fn spends(&mut self, process: ProcessId, subject: Subject, now: Micros) {
        self.may_go_on(process, subject, now);
    }

    /// Notes that an operation has ended without a reply of the store: its outcome is not known, or a share has
    /// decided it, for a cause that can't be known. A request for its permits may go on.
    pub(crate) fn has_no_reply(&mut self, process: ProcessId, subject: Subject, now: Micros) {
        self.may_go_on(process, subject, now);
    }

    /// Notes that a request for which no caller waits may be under way.
    fn may_go_on(&mut self, process: ProcessId, subject: Subject, now: Micros) {
        let key = self.keys.entry((process, subject)).or_default();
        key.shared_until = key.shared_until.max(now + WITHOUT_CALLER);
    }

    /// Notes that the caller of an operation has left.
    pub(crate) fn leaves(&mut self, process: ProcessId, operation: u64, now: Micros) {
        if let Some(operation) = self.operations.remove(&operation) {
            let key = self.keys.entry((process, operation.subject)).or_default();
            key.shared_until = now + SENT_WITHIN;
        }
    }

    /// Notes that a process is suspended, so that its calls may be sent late.
    pub(crate) fn suspended(&mut self, process: ProcessId, now: Micros) {
        let keys = self.keys.iter_mut().filter(|((of, _), _)| *of == process);
        keys.for_each(|(_, key)| key.shared_until = now + SENT_WITHIN);
    }

    /// Notes that an operation has ended. Returns its key if that was changed, but must not have been.
    pub(crate) fn ends(
        &mut self,
        process: ProcessId,
        (operation, subject): (u64, Subject),
        is_unchanged: bool,
    ) -> Option<Subject> {
        if let Some(key) = self.keys.get_mut(&(process, subject)) {
            key.under_way.remove(&operation);
        }
        let ended = self.operations.get_mut(&operation).filter(|_| is_unchanged)?;
        ended.most = 0;
        (ended.changes > 0).then_some(subject)
    }

    /// Notes that a call is sent that has a key.
    pub(crate) fn sent(&mut self, process: ProcessId, subject: Subject, call: u64, now: Micros) {
        let Some(key) = self.keys.get(&(process, subject)) else { return };
        if let (1, Some(only)) = (key.under_way.len(), key.under_way.first())
            && key.shared_until <= now
        {
            self.calls.insert(call, *only);
        }
    }

    /// Notes that a call changes a key for no operation.
    pub(crate) fn is_for_nobody(&mut self, subject: Subject, call: u64) {
        let operation = self.calls.get(&call).and_then(|number| self.operations.get(number));
        if operation.is_some_and(|operation| operation.subject == subject) {
            self.calls.remove(&call);
        }
    }

    /// Notes that a call has changed a key, and returns that if its operation does not allow it.
    pub(crate) fn changed(&mut self, subject: Subject, call: u64) -> Option<Subject> {
        let operation = self.calls.get(&call)?;
        let operation = self.operations.get_mut(operation)?;
        if operation.subject != subject {
            return None;
        }
        operation.changes += 1;
        (operation.changes > operation.most).then_some(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: ProcessId = ProcessId(1);
    const KEY: Subject = Subject(0);

    #[test]
    fn a_call_of_the_only_operation_is_for_it() {
        let mut calls = Attributions::default();
        let one = calls.begins(PROCESS, KEY, 1, 10);
        calls.sent(PROCESS, KEY, 1, 11);
        assert_eq!(calls.changed(KEY, 1), None);
        assert_eq!(calls.ends(PROCESS, (one, KEY), true), Some(KEY));

        let one = calls.begins(PROCESS, KEY, 1, 20);
        calls.sent(PROCESS, KEY, 2, 21);
        assert_eq!(calls.ends(PROCESS, (one, KEY), true), None);
        assert_eq!(calls.changed(KEY, 2), Some(KEY));

        let one = calls.begins(PROCESS, KEY, 1, 30);
        calls.sent(PROCESS, KEY, 3, 31);
        assert_eq!(calls.ends(PROCESS, (one, KEY), false), None);
        assert_eq!(calls.changed(KEY, 3), None);
        assert_eq!(calls.changed(KEY, 3), Some(KEY));
    }

    #[test]
    fn a_call_may_be_for_others() {
        let mut calls = Attributions::default();
        let one = calls.begins(PROCESS, KEY, 1, 10);
        let two = calls.begins(PROCESS, KEY, 1, 11);
        calls.sent(PROCESS, KEY, 1, 12);
        calls.changed(KEY, 1);
        assert_eq!(calls.ends(PROCESS, (one, KEY), true), None);
        assert_eq!(calls.ends(PROCESS, (two, KEY), true), None);
        let one = calls.begins(PROCESS, KEY, 1, 50);
        calls.spends(PROCESS, KEY, 60);
        calls.sent(PROCESS, KEY, 2, 60);
        calls.changed(KEY, 2);
        assert_eq!(calls.ends(PROCESS, (one, KEY), true), None);
        let left = calls.begins(PROCESS, KEY, 1, 200);
        calls.sent(PROCESS, KEY, 3, 201);
        calls.leaves(PROCESS, left, 202);
        assert_eq!(calls.ends(PROCESS, (left, KEY), true), None);
        assert_eq!(calls.changed(KEY, 3), None);
    }

    #[test]
    fn a_request_may_go_on_after_its_caller_had_no_reply() {
        let mut calls = Attributions::default();
        let one = calls.begins(PROCESS, KEY, 1, 10);
        let two = calls.begins(PROCESS, KEY, 1, 100_000);
        assert_eq!(calls.ends(PROCESS, (one, KEY), false), None);
        calls.has_no_reply(PROCESS, KEY, 200_000);
        // For the first one and for the second one.
        for call in [1, 2] {
            calls.sent(PROCESS, KEY, call, 200_000 + WITHOUT_CALLER - 1);
            assert_eq!(calls.changed(KEY, call), None);
        }
        // Both for the second one.
        for (call, found) in [(3, None), (4, Some(KEY))] {
            calls.sent(PROCESS, KEY, call, 200_000 + WITHOUT_CALLER);
            assert_eq!(calls.changed(KEY, call), found);
        }
        assert_eq!(calls.ends(PROCESS, (two, KEY), false), None);
    }
}
