//! The laws about policies that take turns on one key.

use std::time::Duration;

use limiter_core::{Limit, Policy, Receipt, Timestamp, Usage};
use proptest::{prelude::*, test_runner::TestCaseError};

use super::{KEY, Law, is_paced, largest};
use crate::{
    oracle::{
        admitted::{price, unit},
        gcra,
    },
    schedule::{Request, Scenario},
    subject::Subject,
};

/// Law 9: what a key takes under one policy is used up under all that share its states, by GCRA as a part of the burst, by
/// others as a number of permits. Under all others nothing changes, nor does a refusal change anything.
pub fn a_changed_quota_keeps_what_is_used(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    for Request { now, policy, cost } in scenario.requests() {
        let policies: Vec<_> = scenario.policies().collect();
        let peek_all = |subject: &mut dyn Subject| -> Vec<_> {
            let peek = |policy: &&Policy| peek_by(subject, now, policy);
            policies.iter().map(peek).collect()
        };
        let before = peek_all(subject);
        let admitted = subject.decide_by(now, policy, KEY, cost).is_admitted();
        let after = peek_all(subject);
        for (other, (before, after)) in policies.iter().zip(before.iter().zip(&after)) {
            let shares = other.identities().iter().any(|it| policy.identities().contains(it));
            if !admitted || !shares {
                prop_assert_eq!(before, after, "{:?} changed by {} of {:?}", other, cost, policy);
            } else if let ([limit], [charged]) = (other.limits(), policy.limits()) {
                let taken = before.remaining() - after.remaining();
                let (least, most) = taken_of(limit, charged, cost.get(), subject.tick());
                let is_used_up = after.remaining() == 0;
                let is_exact = taken <= most && (taken >= least || is_used_up);
                prop_assert!(is_exact || is_paced(limit), "{cost} from {before:?} to {after:?}");
            }
        }
    }
    Ok(())
}

/// Returns how many permits of a limit a cost takes that is charged by another limit of its span, at least and at most, by a
/// limiter with this tick.
fn taken_of(limit: &Limit, charged: &Limit, cost: u64, tick: Duration) -> (u64, u64) {
    if !limit.algorithm().is_continuous() {
        return (cost, cost);
    }
    let tick = tick.as_nanos();
    let [own, other] = [limit, charged].map(|limit| price(limit, tick));
    let time = u128::from(cost) * other;
    let permits = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    // A quota that counts in whole ticks rounds the debt of another one up.
    let rounded = time + (tick - 1) * unit(tick);
    (permits(time / own), permits(rounded.div_ceil(own)))
}

fn peek_by(subject: &mut dyn Subject, now: Timestamp, policy: &Policy) -> Usage {
    subject.switch(policy);
    subject.peek(now, KEY)
}

/// Law 9: on a key without debts, a handle decides as a limiter that was built with the policy that
/// the handle reports. `make` builds such limiters.
pub fn a_handle_enforces_the_policy_that_it_reports<S: Subject>(
    subject: &mut S,
    make: impl Fn(Policy) -> S,
    scenario: &Scenario,
) -> Law {
    let mut built: Vec<_> = scenario.policies().map(|policy| make(policy.clone())).collect();
    for Request { now, policy, cost } in scenario.requests() {
        subject.switch(policy);
        prop_assert_eq!(&subject.policy(), policy);
        let index = scenario.policies().position(|other| other == policy);
        let Some((index, built)) = index.and_then(|index| Some((index, built.get_mut(index)?)))
        else {
            return Err(TestCaseError::fail("a policy of no scenario"));
        };
        let key = index.to_string();
        let decision = subject.decide(now, &key, cost);
        prop_assert_eq!(decision, built.decide(now, &key, cost));
        if let Some(limit) = policy.limits().get(decision.limit_index()) {
            prop_assert_eq!(decision.burst(), largest(limit));
        }
    }
    Ok(())
}

/// GCRA with quotas of one span in turn, reservations and refunds follows the model.
pub fn gcra_follows_its_model(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut state = None;
    let mut receipts: Vec<(gcra::Receipt, Receipt)> = Vec::new();
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        let made = u128::from(now.as_nanos()) * gcra::NANO;
        let quota = policy.limits().first().map(model_of).expect("a policy has a limit");
        if state.is_some_and(|tat| !quota.is_possible(tat, made)) {
            // A full debt replaces the state. A limiter in memory then gives back nothing of what was
            // charged before, and a bare transition does not know.
            receipts.clear();
        }
        if index % 5 == 4 && !receipts.is_empty() {
            let (model, receipt) = receipts.swap_remove(index / 5 % receipts.len());
            let kept = if index % 2 == 0 { receipt.permits() / 2 } else { 0 };
            let back = model.refund(&mut state, made, (receipt.permits() - kept).into());
            prop_assert_eq!(u128::from(subject.refund(now, receipt.keep(kept))), back);
        }
        let in_any_case = index % 7 == 3;
        let within = [Duration::ZERO, scenario.quota().window(), Duration::MAX];
        let within = within.get(index % 3).copied().unwrap_or_default();
        subject.switch(policy);
        let (outcome, permits, reservation) = if in_any_case {
            let permits = quota.charge(&mut state, made, cost.get().into());
            (gcra::Outcome::Admitted(made), permits, subject.charge(now, KEY, cost))
        } else {
            let outcome = quota.take(&mut state, made, cost.get().into(), ticks(within));
            (outcome, cost.get().into(), subject.reserve(now, KEY, cost, within))
        };
        let returned = match reservation.delay() {
            Some(delay) => gcra::Outcome::Admitted(made + ticks(delay)),
            None => gcra::Outcome::Refused(reservation.decision().retry_after().map(ticks)),
        };
        prop_assert_eq!(returned, outcome, "{} at tick {}", cost, made);
        let remaining = u128::from(reservation.decision().remaining());
        prop_assert_eq!(remaining, quota.remaining(state, made));
        if let gcra::Outcome::Admitted(at) = outcome {
            prop_assert_eq!(u128::from(reservation.permits()), permits, "{} at {}", cost, made);
            if let (Some(receipt), Some(mark)) = (reservation.into_receipt(), state) {
                receipts.push((gcra::Receipt { made, at, mark, cost: permits, quota }, receipt));
            }
        }
    }
    Ok(())
}

fn model_of(limit: &Limit) -> gcra::Quota {
    let (quota, window) = (limit.quota(), ticks(limit.quota().window()));
    let (permits, burst) = (u128::from(quota.permits()), u128::from(quota.burst()));
    let (increment, span) = (window.div_ceil(permits), (window * burst).div_ceil(permits));
    gcra::Quota { increment, burst, span, horizon: ticks(limit.horizon()) }
}

const fn ticks(time: Duration) -> u128 {
    time.as_nanos() * gcra::NANO
}
