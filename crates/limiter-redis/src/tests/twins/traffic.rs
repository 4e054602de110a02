//! Random calls of every operation by several policies in turn on one key, held against the twins.

use std::time::Duration;

use limiter_core::{Cost, Policy};
use proptest::prelude::*;

use super::{
    model::{Model, Outcome},
    rig::{Done, Rig},
};
use crate::{
    scripts::{Charged, CheckReply, Plan, Scripts},
    tests::store::Store,
};

/// A policy, and its twin.
struct Side {
    plan: Plan,
    model: Model,
    window: Duration,
}

/// The scripts of policies with the same families, and their twins, on one key.
pub(in crate::tests) struct Pair {
    sides: Vec<Side>,
    rig: Rig,
    value: Option<String>,
    receipts: Vec<(usize, Charged, u64)>,
    steps: Vec<Step>,
}

/// A call, and what the twin did.
struct Step {
    now: i128,
    call: String,
    /// Of a check or a peek, the policy and the cost.
    check: Option<(usize, Cost)>,
    outcome: Outcome,
}

/// Which operation comes next, and how.
struct Choice(u64);

impl Choice {
    /// Returns a number below `most`.
    fn below(&mut self, most: u64) -> u64 {
        let chosen = self.0 % most;
        self.0 = (self.0 / most) ^ self.0.rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        chosen
    }
}

impl Pair {
    pub(in crate::tests) fn new(policies: &[Policy]) -> Self {
        let side = |policy: &Policy| {
            let plan = Plan::new(Scripts::shared(), policy, Some(Duration::MAX));
            let model = Model::new(policy, plan.limits.iter().map(|limit| &limit.arguments));
            Side { plan, model, window: policy.limits()[0].quota().window() }
        };
        Self {
            sides: policies.iter().map(side).collect(),
            rig: Rig::new(),
            value: None,
            receipts: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Begins with a text that someone else has left.
    pub(super) fn put(&mut self, store: &Store, text: &str) {
        self.rig.put(store, text.as_bytes());
        self.value = Some(text.to_owned());
    }

    /// Calls what a random number chooses.
    pub(super) fn random(&mut self, now: i128, cost: Cost, choice: u64) {
        let mut choice = Choice(choice);
        let side = usize::try_from(choice.below(self.sides.len() as u64)).unwrap();
        match choice.below(20) {
            0..4 if self.sides[side].plan.lease.is_some() => {
                let wanted = [1, 2, 10, 1_000_000][usize::try_from(choice.below(4)).unwrap()];
                self.lease(now, side, cost, wanted);
            }
            0..7 => self.check(now, side, cost),
            7..13 => {
                let window = self.sides[side].window;
                let within = [Duration::ZERO, window / 2, window, window * 3, Duration::MAX];
                let within = within[usize::try_from(choice.below(5)).unwrap()];
                self.take(now, side, cost, within);
            }
            13..17 if !self.receipts.is_empty() => {
                let index = choice.below(self.receipts.len() as u64);
                let receipt = self.receipts.swap_remove(usize::try_from(index).unwrap());
                let kept = [0, 0, 1, receipt.2 / 2][usize::try_from(choice.below(4)).unwrap()];
                self.refund(now, &receipt, receipt.2.saturating_sub(kept).max(1));
            }
            17 if choice.below(3) == 0 => {
                let call = self.sides[side].plan.reset();
                self.rig.add(now, &call);
                let reply = vec![self.value.is_some().into()];
                let outcome = Outcome { reply, value: None, life: None };
                self.note(now, "reset".to_owned(), None, outcome);
            }
            _ => self.peek(now, side),
        }
    }

    pub(in crate::tests) fn check(&mut self, now: i128, side: usize, cost: Cost) {
        let Side { plan, model, .. } = &mut self.sides[side];
        self.rig.add(now, &plan.check(cost));
        let outcome = model.take(now, self.value.as_deref(), cost.get().into(), None);
        self.note(now, format!("check {cost} by {side}"), Some((side, cost)), outcome);
    }

    fn lease(&mut self, now: i128, side: usize, cost: Cost, wanted: u64) {
        let Side { plan, model, .. } = &mut self.sides[side];
        let call = plan.checks(&[(plan, cost, wanted)]);
        self.rig.add(now, &call);
        let found = self.value.as_deref();
        let terms = [cost.get().into(), wanted.into(), call.arguments[2].into()];
        let outcome = model.lease(now, found, terms);
        if outcome.reply[0] > 0 {
            let reply: Vec<_> = outcome.reply.iter().map(|n| i64::try_from(*n).unwrap()).collect();
            let charged = plan.checked(&reply, cost).unwrap().charged.unwrap();
            let permits = charged.permits();
            self.receipts.push((side, charged, permits));
        }
        let text = format!("lease {wanted} for {cost} by {side}");
        self.note(now, text, Some((side, cost)), outcome);
    }

    fn take(&mut self, now: i128, side: usize, cost: Cost, within: Duration) {
        let Side { plan, model, .. } = &mut self.sides[side];
        let call = plan.take(cost, within);
        self.rig.add(now, &call);
        let within = call.arguments[1];
        let found = self.value.as_deref();
        let outcome = model.take(now, found, cost.get().into(), Some(within.into()));
        let reply: Vec<_> = outcome.reply.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        let taken = plan.taken(&reply, cost).expect("a reply with a meaning");
        if let Some(charged) = taken.charged {
            self.receipts.push((side, charged, cost.get()));
        }
        self.note(now, format!("take {cost} by {side} within {within} us"), None, outcome);
    }

    fn refund(&mut self, now: i128, receipt: &(usize, Charged, u64), permits: u64) {
        let (side, charged, _) = receipt;
        let Side { plan, model, .. } = &mut self.sides[*side];
        let call = plan.refund(charged, permits);
        self.rig.add(now, &call);
        let outcome = model.refund(now, self.value.as_deref(), &call);
        let text = format!("refund {:?} by {side}", call.arguments);
        self.note(now, text, None, outcome);
    }

    pub(super) fn peek(&mut self, now: i128, side: usize) {
        let Side { plan, model, .. } = &mut self.sides[side];
        self.rig.add(now, &plan.peek());
        let outcome = model.take(now, self.value.as_deref(), 0, None);
        self.note(now, format!("peek by {side}"), Some((side, Cost::ONE)), outcome);
    }

    fn note(&mut self, now: i128, call: String, check: Option<(usize, Cost)>, outcome: Outcome) {
        self.value.clone_from(&outcome.value);
        self.steps.push(Step { now, call, check, outcome });
    }

    /// Returns a refusal of GCRA, which is a debt, as the replies of the other scripts.
    fn spelled_out(&self, check: Option<(usize, Cost)>, reply: Vec<i128>) -> Vec<i128> {
        let Some((side, cost)) = check.filter(|_| reply[0] < 0) else { return reply };
        let numbers: Vec<_> = reply.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        let plan = &self.sides[side].plan;
        let micros = |time: Duration| i128::try_from(time.as_micros()).unwrap();
        let wait = |reply: CheckReply| reply.decision.retry_after().map_or(-1, micros);
        // A peek may leave room for the cost, which no refusal does.
        let wait = plan.checked(&numbers, cost).map_or(0, wait);
        let usage = plan.peeked(&numbers).expect("a debt");
        vec![0, wait, micros(usage.reset_after()), usage.remaining().into()]
    }

    /// Runs the scripts, and holds the twins' answers against theirs.
    pub(in crate::tests) fn compare(&mut self, store: &Store) -> Result<usize, TestCaseError> {
        let all = self.rig.run(store);
        prop_assert_eq!(all.len(), self.steps.len());
        let mut before: Option<&Done> = None;
        for (index, (step, done)) in self.steps.iter().zip(&all).enumerate() {
            let Step { now, call, check, outcome } = step;
            let found = before
                .map(|done| String::from_utf8_lossy(done.value.as_deref().unwrap_or_default()));
            let context = format!("step {index} at {now}: {call}\nfound {found:?}");
            let reply = done.reply.clone().map(|reply| self.spelled_out(*check, reply));
            let (mut reply, mut expected) = (reply, outcome.reply.clone());
            if call.starts_with("peek") {
                // A cost of zero waits for nothing that a caller sees.
                let waits = 1..if self.sides[0].plan.limits.len() > 1 { 3 } else { 2 };
                reply.iter_mut().for_each(|reply| reply[waits.clone()].fill(0));
                expected[waits].fill(0);
            }
            prop_assert_eq!(reply, Ok(expected), "{}", context);
            let value = done.value.as_ref().map(|value| String::from_utf8_lossy(value));
            prop_assert_eq!(value.as_deref(), outcome.value.as_deref(), "{}", context);
            // What has no expiry gets one, planted as it was.
            let was_kept = before.is_none_or(|before| before.stays) && outcome.life.is_none();
            prop_assert!(was_kept || done.life == outcome.life, "{done:?}\n{context}");
            prop_assert!(call.starts_with("refund") || !done.stays, "no expiry after {context}");
            before = Some(done);
        }
        let calls = all.len();
        self.steps.clear();
        Ok(calls)
    }
}
