//! What the scripts do besides an algorithm's functions, in Rust: values with their notes, several
//! limits, and the operations.

use std::ops::Range;

use super::value::{Notes, Value};
use crate::scripts::{
    Plan,
    twin::{Refund, Twin},
};

/// One key, and the policy that is applied to it.
pub(super) struct Model {
    limits: Vec<Box<dyn Twin>>,
    /// Those of the tier that asks.
    own: Range<usize>,
    pub(super) value: Value,
    notes: Notes,
    now: i128,
}

/// What a call replied, and how long the key is to live, in milliseconds, if that was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) reply: Vec<i128>,
    pub(super) life: Option<i128>,
}

impl Model {
    pub(super) fn new(plan: &Plan, value: Value) -> Self {
        let limits = plan.limits().iter();
        let is_alone = plan.limits().len() == 1;
        let limits: Vec<_> = limits.map(|limit| limit.twin(is_alone)).collect();
        let own = 0..limits.len();
        Self { limits, own, value, notes: Notes::default(), now: 0 }
    }

    /// Sets the time, and whose limits decide.
    pub(super) fn at(&mut self, now: i128, own: Range<usize>) -> &mut Self {
        (self.now, self.own) = (now, own);
        self
    }

    pub(super) fn take(&mut self, cost: i128, within: i128) -> Outcome {
        let text = self.load();
        let healed = self.read(text.as_deref());
        let delay = self.wait(cost);
        let admitted = delay.filter(|delay| *delay == 0 || *delay <= within);
        let mut life = None;
        if let Some(delay) = admitted {
            self.charge(cost, self.now + delay);
            if delay > 0 {
                self.notes.promised = self.notes.promised.max(self.now + delay);
            }
        }
        if admitted.is_some() || healed {
            let (text, till) = self.write();
            if healed {
                self.notes.since = self.now;
                self.notes.horizon = self.notes.horizon.max(till);
            }
            life = self.store(&text, till);
        }
        let mut reply = self.numbers(admitted.is_some());
        if admitted.is_some() && within >= 0 {
            reply.extend([delay.unwrap_or_default(), self.now]);
        } else if admitted.is_none() && self.limits.len() > 1 {
            reply.push(delay.unwrap_or(-1));
        }
        Outcome { reply, life }
    }

    pub(super) fn peek(&mut self) -> Outcome {
        let text = self.load();
        self.read(text.as_deref());
        let mut reply = self.numbers(false);
        if self.limits.len() > 1 {
            reply.push(0);
        }
        Outcome { reply, life: None }
    }

    /// Gives back by the arguments that the script has: how many of how many, when they were charged
    /// and for when, and the marks.
    pub(super) fn refund(
        &mut self,
        [permits, cost, charged, at]: [i128; 4],
        marks: &[i128],
    ) -> Outcome {
        let text = self.load();
        let Notes { since, moved, horizon, .. } = self.notes;
        let counts = horizon > self.now;
        if text.is_none() || charged > self.now || counts && charged <= since {
            return Outcome { reply: vec![0], life: None };
        }
        if self.read(text.as_deref()) {
            return Outcome { reply: vec![0], life: None };
        }
        let (_, before) = self.write();
        let has_moved = counts && charged <= moved;
        let mut moves = false;
        for (limit, mark) in self.limits[self.own.clone()].iter_mut().zip(marks.chunks(2)) {
            let (mark, mark_rem) = (mark[0], mark[1]);
            moves |= limit.refund(&Refund { permits, cost, at, has_moved, mark, mark_rem });
        }
        if moves {
            self.notes.moved = self.now;
            self.notes.horizon = horizon.max(before);
        }
        let (text, till) = self.write();
        Outcome { reply: vec![1], life: self.store(&text, till) }
    }

    pub(super) fn reset(&mut self) -> Outcome {
        let Some(text) = self.load() else {
            return Outcome { reply: vec![0], life: None };
        };
        self.read(Some(&text));
        let (_, till) = self.write();
        let Notes { promised, horizon, .. } = self.notes;
        let horizon = horizon.max(till).max(promised);
        self.notes = Notes { promised: 0, since: self.now, horizon, ..self.notes };
        Outcome { reply: vec![1], life: self.value.clear(&self.notes, self.now) }
    }

    fn load(&mut self) -> Option<Vec<u8>> {
        let (text, notes) = self.value.load(self.now);
        self.notes = notes;
        text
    }

    fn store(&mut self, text: &[u8], till: i128) -> Option<i128> {
        self.value.store(text, till, &self.notes, self.now)
    }

    fn read(&mut self, text: Option<&[u8]>) -> bool {
        let latest = self.now.max(self.notes.promised);
        if let [limit] = self.limits.as_mut_slice() {
            return limit.read(text, self.now, latest);
        }
        let (mut texts, mut rest, mut healed) = (Vec::new(), text.unwrap_or_default(), false);
        for limit in self.limits.iter().filter(|_| text.is_some()) {
            if rest.is_empty() {
                break;
            }
            let (own, behind) = rest.split_at(limit.length(rest).min(rest.len()));
            (texts, rest) = ([texts, vec![own]].concat(), behind);
        }
        for (n, limit) in self.limits.iter_mut().enumerate() {
            // A tier that is new owes what the first one owes.
            let own = texts.get(n).or_else(|| texts.get(n % self.own.len()));
            healed |= limit.read(own.copied(), self.now, latest);
        }
        healed
    }

    fn longest_wait(&mut self, cost: i128, from: i128) -> Option<i128> {
        let limits = self.limits[self.own.clone()].iter_mut();
        // All are asked: a ledger notes what it was asked last.
        let waits: Vec<_> = limits.map(|limit| limit.wait(cost, from)).collect();
        waits.into_iter().try_fold(0, |longest, wait| Some(wait?.max(longest)))
    }

    fn wait(&mut self, cost: i128) -> Option<i128> {
        let longest = self.longest_wait(cost, self.now)?;
        if self.limits.len() == 1 || longest == 0 {
            return Some(longest);
        }
        let more = self.longest_wait(cost, self.now + longest);
        // What a ledger tells is how long it waits from now on.
        self.longest_wait(cost, self.now);
        Some(longest + more?)
    }

    fn charge(&mut self, cost: i128, at: i128) {
        for (n, limit) in self.limits.iter_mut().enumerate() {
            if self.own.contains(&n) {
                limit.charge(cost, at);
            } else {
                limit.owe(cost, self.now);
            }
        }
    }

    fn write(&self) -> (Vec<u8>, i128) {
        let all: Vec<_> = self.limits.iter().map(|limit| limit.write()).collect();
        let till = all.iter().map(|(_, till)| *till).fold(self.now, i128::max);
        match all.as_slice() {
            [(text, till)] => (text.clone(), *till),
            _ => (all.into_iter().flat_map(|(text, _)| text).collect(), till),
        }
    }

    /// Returns the numbers of the own limits, the first of each negative in a refusal.
    fn numbers(&self, is_admitted: bool) -> Vec<i128> {
        let limits = self.limits[self.own.clone()].iter();
        let signed = limits.flat_map(|limit| {
            let mut numbers = limit.numbers();
            numbers[0] *= if is_admitted { 1 } else { -1 };
            numbers
        });
        signed.collect()
    }
}
