//! Random calls of every operation, and what the twins say to them.

use std::{ops::Range, time::Duration};

use limiter_core::{Cost, Policy, Timestamp};
use limiter_test::schedule::Scenario;
use proptest::prelude::*;

use super::{
    model::{Model, Outcome},
    rig::{Done, Rig, scripts_time},
    tapes,
    value::Value,
};
use crate::{
    scripts::{Charged, PRELUDE, Plan},
    tests::store::{EPOCH, Store},
};

/// What a twin says to a call.
struct Step {
    now: Timestamp,
    call: String,
    outcome: Outcome,
    value: Value,
}

/// A receipt: by which tier, of what, and how many permits.
struct Receipt {
    tier: usize,
    charged: Charged,
    permits: u64,
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

/// The twin and the script of a policy, on one key.
pub(in crate::tests) struct Pair {
    plan: Plan,
    tiers: u64,
    each: usize,
    window: Duration,
    twin: Model,
    rig: Rig,
    receipts: Vec<Receipt>,
    steps: Vec<Step>,
    is_planted: bool,
    /// Until when the server was told to keep the key.
    expires: i128,
}

impl Pair {
    pub(in crate::tests) fn new(policy: &Policy) -> Self {
        let plan = Plan::new(PRELUDE, policy).unwrap();
        let value = if plan.is_tape() { Value::Tape(Vec::new()) } else { Value::Text(None) };
        Self {
            twin: Model::new(&plan, value),
            plan,
            tiers: policy.tiers().len() as u64 + 1,
            each: policy.limits().len(),
            window: policy.limits()[0].quota().window(),
            rig: Rig::new(),
            receipts: Vec::new(),
            steps: Vec::new(),
            is_planted: false,
            expires: 0,
        }
    }

    /// Begins with a value that someone else has left.
    pub(super) fn put(&mut self, store: &Store, value: Value) {
        if let Value::Text(Some(text)) = &value {
            self.rig.put(store, text.as_slice().into());
        }
        self.is_planted = true;
        self.twin.value = value;
    }

    /// Calls what a random number chooses.
    pub(super) fn random(&mut self, now: Timestamp, cost: Cost, choice: u64) {
        let mut choice = Choice(choice);
        let tier = usize::try_from(choice.below(self.tiers)).unwrap();
        match choice.below(20) {
            0..6 => self.check(now, tier, cost),
            6..13 => {
                let window = self.window;
                let within = [Duration::ZERO, window / 2, window, window * 3, Duration::MAX];
                let within = within[usize::try_from(choice.below(5)).unwrap()];
                self.take(now, tier, cost, within);
            }
            13..17 => {
                let receipts = self.receipts.len() as u64;
                if receipts > 0 {
                    let index = usize::try_from(choice.below(receipts)).unwrap();
                    let receipt = self.receipts.swap_remove(index);
                    let kept = [0, 0, 1, receipt.permits / 2][(choice.0 % 4) as usize];
                    self.refund(now, &receipt, receipt.permits.saturating_sub(kept).max(1));
                }
            }
            17 => self.reset(now, tier),
            _ => self.peek(now, tier),
        }
    }

    pub(in crate::tests) fn check(&mut self, now: Timestamp, tier: usize, cost: Cost) {
        let call = self.plan.check(tier, cost);
        self.rig.add(now, &call);
        let outcome = self.at(now, tier).take(whole(cost), -1);
        self.note(now, format!("check {cost} by {tier}"), outcome);
    }

    fn take(&mut self, now: Timestamp, tier: usize, cost: Cost, within: Duration) {
        let call = self.plan.take(tier, cost, within);
        self.rig.add(now, &call);
        let within = call.arguments[1];
        let outcome = self.at(now, tier).take(whole(cost), within.into());
        let reply: Vec<_> = outcome.reply.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        let taken = self.plan.taken(tier, &reply, cost).expect("a reply with a meaning");
        if let Some(charged) = taken.charged {
            self.receipts.push(Receipt { tier, charged, permits: cost.get() });
        }
        self.note(now, format!("take {cost} by {tier} within {within} us"), outcome);
    }

    fn refund(&mut self, now: Timestamp, receipt: &Receipt, permits: u64) {
        let call = self.plan.refund(receipt.tier, &receipt.charged, permits);
        self.rig.add(now, &call);
        let arguments: Vec<_> = call.arguments.iter().copied().map(i128::from).collect();
        let (first, marks) = arguments.split_first_chunk::<4>().unwrap();
        let call = format!("refund {permits} by {}: {first:?}, {marks:?}", receipt.tier);
        let (first, marks) = (*first, marks.to_vec());
        let outcome = self.at(now, receipt.tier).refund(first, &marks);
        self.note(now, call, outcome);
    }

    fn reset(&mut self, now: Timestamp, tier: usize) {
        let call = self.plan.reset(tier);
        self.rig.add(now, &call);
        let outcome = self.at(now, tier).reset();
        self.note(now, format!("reset by {tier}"), outcome);
    }

    pub(super) fn peek(&mut self, now: Timestamp, tier: usize) {
        let call = self.plan.peek(tier);
        self.rig.add(now, &call);
        let outcome = self.at(now, tier).peek();
        self.note(now, format!("peek by {tier}"), outcome);
    }

    fn at(&mut self, now: Timestamp, tier: usize) -> &mut Model {
        let own: Range<usize> = tier * self.each..(tier + 1) * self.each;
        self.twin.at(scripts_time(now), own)
    }

    fn note(&mut self, now: Timestamp, call: String, outcome: Outcome) {
        self.steps.push(Step { now, call, outcome, value: self.twin.value.clone() });
    }

    /// Returns the numbers of a reply.
    fn numbers(&self, reply: &[i128]) -> Vec<i128> {
        let reply: Vec<_> = reply.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        self.plan.numbers(&reply).iter().copied().map(i128::from).collect()
    }

    /// Returns how many bytes the value has.
    pub(in crate::tests) fn bytes(&self, store: &Store) -> u64 {
        self.rig.bytes(store)
    }

    /// Runs the script, and holds the twin's answers against its.
    pub(in crate::tests) fn compare(&mut self, store: &Store) -> Result<Vec<Done>, TestCaseError> {
        let all = self.rig.run(store);
        prop_assert_eq!(all.len(), self.steps.len());
        let (mut before, mut expires) = (None, self.expires);
        for (index, (step, done)) in self.steps.iter().zip(&all).enumerate() {
            let Step { now, call, outcome, value } = step;
            let context = format!(
                "step {index} at {now:?} ({} us): {call}\nfound {before:?}",
                scripts_time(*now)
            );
            let mut reply = done.reply.clone();
            if call.starts_with("check") {
                reply = reply.map(|reply| self.numbers(&reply));
                // When permits of a ledger were taken is for receipts alone.
                if let Ok([reset, _, taken_at]) = reply.as_deref_mut()
                    && self.plan.is_tape()
                    && *reset > 0
                {
                    *taken_at = outcome.reply[2];
                }
            }
            prop_assert_eq!(reply.as_ref(), Ok(&outcome.reply), "{}", context);
            prop_assert_eq!(value, &present(&done.value, value), "{}", context);
            prop_assert_eq!(done.life, outcome.life, "the life after {}", context);
            let is_text = matches!(value, Value::Text(_));
            prop_assert!(!is_text || done.writes <= 1, "{} writes: {}", done.writes, context);
            let refused = call.starts_with("take") || call.starts_with("check");
            let refused = refused && outcome.reply[0] <= 0 && before == Some(&done.value);
            let quiet = refused || call.starts_with("peek");
            prop_assert!(!quiet || done.writes == 0, "{} writes: {}", done.writes, context);
            prop_assert!(self.is_planted || !done.stays, "there for ever after {}", context);
            expires = done.life.map_or(expires, |life| scripts_time(*now) + life * 1_000);
            if let Value::Tape(list) = &done.value {
                prop_assert!(tapes::is_whole(list), "{list:?} after {context}");
                prop_assert!(tapes::counts_till(list) < expires, "{list:?} after {context}");
            }
            before = Some(&done.value);
        }
        self.steps.clear();
        self.expires = expires;
        Ok(all)
    }
}

/// Returns what is at a key, where nothing may be either kind of value.
fn present(value: &Value, like: &Value) -> Value {
    match (value, like) {
        (Value::Text(None), Value::Tape(_)) => Value::Tape(Vec::new()),
        _ => value.clone(),
    }
}

fn whole(cost: Cost) -> i128 {
    i128::from(cost.get()).min(1 << 53)
}

/// Runs a scenario's requests, each by the operation that its number chooses, and returns how many
/// there were.
pub(super) fn run(
    store: &Store,
    scenario: &Scenario,
    choices: &[u64],
) -> Result<usize, TestCaseError> {
    let mut pair = Pair::new(&scenario.policy);
    for ((now, cost), choice) in scenario.requests().zip(choices) {
        pair.random(now.saturating_add(EPOCH), cost, *choice);
    }
    Ok(pair.compare(store)?.len())
}
