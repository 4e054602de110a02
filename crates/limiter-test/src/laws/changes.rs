//! The laws about policies that take turns on one key.

use std::time::Duration;

use limiter_core::{Algorithm, Limit, Policy, Receipt, Timestamp};
use proptest::prelude::*;

use super::{KEY, Law, largest};
use crate::{
    oracle::gcra,
    schedule::{Request, Scenario},
    subject::Operations,
};

/// Law 9: what a key takes under one policy is used up under all of them, as far as they have as
/// much; and asking under another policy changes nothing.
///
/// A window of another length may have begun before the one that a policy would open. A log keeps as many
/// permits as its quotas may take.
pub fn a_changed_quota_keeps_the_debt(subject: &mut impl Operations, scenario: &Scenario) -> Law {
    for Request { now, policy, cost } in scenario.requests() {
        let policies: Vec<_> = scenario.policies().collect();
        let peek_all = |subject: &mut _| -> Vec<_> {
            let peek = |policy: &&Policy| peek_by(subject, now, policy);
            policies.iter().map(peek).collect()
        };
        let before = peek_all(subject);
        let admitted = subject.decide_by(now, policy, KEY, cost).is_admitted();
        let after = peek_all(subject);
        if !admitted {
            prop_assert_eq!(&before, &after, "a refusal changed something");
            continue;
        }
        for (other, (before, after)) in policies.iter().zip(before.iter().zip(&after)) {
            let same_limit = before.limit_index() == after.limit_index();
            let counts = counts_for(policy, other) || (before.used() > 0 && same_limit);
            let taken = if counts { cost.get() } else { 0 };
            let kept = if same_limit { before.used().saturating_add(taken) } else { taken };
            let used = kept.min(after.burst()).min(most_kept(policy, other));
            prop_assert!(after.used() >= used, "{cost} from {before:?} to {after:?}");
        }
    }
    Ok(())
}

/// Returns whether each charge under one policy counts for another one: windows of other lengths than
/// those that are open count what is taken from then on.
fn counts_for(policy: &Policy, other: &Policy) -> bool {
    policy.limits().iter().zip(other.limits()).all(|(limit, other)| {
        let has_windows = matches!(
            limit.algorithm(),
            Algorithm::FixedWindow | Algorithm::AlignedWindow | Algorithm::SlidingCounter
        );
        !has_windows || limit.quota().window() == other.quota().window()
    })
}

/// Returns how many permits a log keeps at least for another policy than the one that has just charged it.
fn most_kept(policy: &Policy, other: &Policy) -> u64 {
    let most = policy.limits().iter().zip(other.limits()).map(|(limit, other)| {
        let has_entries =
            matches!(limit.algorithm(), Algorithm::SubWindows(_) | Algorithm::SlidingLog);
        let is_other = has_entries && limit.quota() != other.quota();
        if is_other { limit.quota().permits() } else { u64::MAX }
    });
    most.min().unwrap_or(u64::MAX)
}

fn peek_by(subject: &mut impl Operations, now: Timestamp, policy: &Policy) -> limiter_core::Usage {
    subject.switch(policy);
    subject.peek(now, KEY)
}

/// Law 9: on a key without debts, a handle decides as a limiter that was built with the policy that
/// the handle reports. `make` builds such limiters.
pub fn a_handle_enforces_the_policy_that_it_reports<S: Operations>(
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

/// GCRA with quotas that take turns, reservations and refunds follows the model.
pub fn gcra_follows_its_model(subject: &mut impl Operations, scenario: &Scenario) -> Law {
    let mut state = None;
    let mut receipts: Vec<(gcra::Receipt, Receipt)> = Vec::new();
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        let made = u128::from(now.as_nanos()) * gcra::NANO;
        let quota = policy.limits().first().map(model_of).expect("a policy has a limit");
        if state.is_some_and(|state: gcra::State| !state.is_possible(made)) {
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
        if index % 7 == 3 {
            subject.switch(policy);
            let charged = subject.charge(now, KEY, cost);
            let permits = quota.charge(&mut state, made, cost.get().into());
            prop_assert_eq!(u128::from(charged.permits()), permits, "{} at tick {}", cost, made);
            let remaining = u128::from(charged.decision().remaining());
            prop_assert_eq!(remaining, quota.remaining(&state, made));
            if let (Some(receipt), Some(gcra::State { tat: mark, .. })) =
                (charged.into_receipt(), state)
            {
                receipts
                    .push((gcra::Receipt { made, at: made, mark, cost: permits, quota }, receipt));
            }
            continue;
        }
        let within = [Duration::ZERO, scenario.quota().window(), Duration::MAX];
        let within = within.get(index % 3).copied().unwrap_or_default();
        let cost_in_permits = u128::from(cost.get());
        let outcome = quota.take(&mut state, made, cost_in_permits, ticks(within));
        subject.switch(policy);
        let reservation = subject.reserve(now, KEY, cost, within);
        let returned = match reservation.delay() {
            Some(delay) => gcra::Outcome::Admitted(made + ticks(delay)),
            None => gcra::Outcome::Refused(reservation.decision().retry_after().map(ticks)),
        };
        prop_assert_eq!(returned, outcome, "{} at tick {}", cost, made);
        let remaining = u128::from(reservation.decision().remaining());
        prop_assert_eq!(remaining, quota.remaining(&state, made));
        if let (Some(receipt), Some(gcra::State { tat: mark, .. }), gcra::Outcome::Admitted(at)) =
            (reservation.into_receipt(), state, outcome)
        {
            let cost = cost_in_permits;
            receipts.push((gcra::Receipt { made, at, mark, cost, quota }, receipt));
        }
    }
    Ok(())
}

fn model_of(limit: &Limit) -> gcra::Quota {
    let quota = limit.quota();
    let increment = ticks(quota.window()).div_ceil(quota.permits().into());
    gcra::Quota { increment, burst: quota.burst().into(), horizon: ticks(limit.horizon()) }
}

const fn ticks(time: Duration) -> u128 {
    time.as_nanos() * gcra::NANO
}
