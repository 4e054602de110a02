//! The laws as properties: each takes a limiter and a random scenario, and returns the case that
//! breaks it.
//!
//! Where a scenario has several policies, they take turns on one key.

#![expect(clippy::missing_errors_doc, reason = "every error is the case that breaks the law")]

mod changes;
mod charges;
pub mod lists;
mod operations;
mod waits;

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Decision, Limit, Policy};
use proptest::{prelude::*, test_runner::TestCaseError};

pub use changes::{
    a_changed_quota_keeps_what_is_used, a_handle_enforces_the_policy_that_it_reports,
    gcra_follows_its_model,
};
pub use charges::{
    charges_afterwards_keep_the_bound, charges_follow_the_definition, taking_takes_what_fits,
    waits_after_a_charge_are_exact,
};
pub use operations::{
    a_refund_gives_back_no_more_than_was_taken, a_refund_gives_back_what_was_taken,
    refunds_never_lift_above_the_bound, reservations_keep_the_bound,
};
pub use waits::{no_wait_outlasts_a_recovery, recovered_equals_absent, retry_after_is_exact};

use crate::{
    oracle::Admitted,
    schedule::{Request, Scenario},
    subject::Subject,
};

/// Whether a law holds.
pub type Law = Result<(), TestCaseError>;

const KEY: &str = "key";

/// Law 1, and law 5 where the clock steps back: admissions stay within the published bound of each
/// limit, over every stretch of time that has passed, however the clock jumps.
pub fn never_over(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut admitted = Admitted::by_ticks_of(subject.tick());
    for Request { now, policy, cost } in scenario.requests() {
        admitted.set_clock(now);
        if subject.decide_by(now, policy, KEY, cost).is_admitted() {
            admitted.add(policy, cost);
        }
    }
    stays_within(&admitted)
}

/// Checks what was admitted against the bounds of the limits.
fn stays_within(admitted: &Admitted) -> Law {
    prop_assert_eq!(admitted.over(), None);
    Ok(())
}

/// The other side of law 1, for limits by a rate: what is refused would not have fitted a tick
/// earlier at a rate one in 800 lower. For one policy, and clocks that do not step back.
///
/// Times are in parts of a nanosecond, in which all prices are whole numbers.
pub fn never_stingy(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    const TICK: u128 = 128;
    let quota = scenario.quota();
    let parts = u128::from(quota.permits()) * 799;
    let price = quota.window().as_nanos() * 800;
    let capacity = u128::from(quota.burst()) * price;
    // When the debt has drained.
    let mut drained = 0;
    for Request { now, cost, .. } in scenario.requests() {
        let nanos = u128::from(now.as_nanos());
        let (at, earlier) = (nanos * parts, nanos.saturating_sub(TICK) * parts);
        let debt_from = |at| u128::from(cost.get()).saturating_mul(price).saturating_add(at);
        if subject.decide(now, KEY, cost).is_admitted() {
            drained = debt_from(drained.max(at)).min(at + capacity);
        } else {
            let fitted = debt_from(drained.max(earlier)) <= earlier + capacity;
            prop_assert!(!fitted, "{cost} at {now:?} fits {quota}");
        }
    }
    Ok(())
}

/// Law 1 from both sides, for limits with windows: each check is decided as by the definition. For one policy, and clocks
/// that do not step back.
pub fn windows_follow_their_definition(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    charges::follow_the_definition(subject, scenario, 1)
}

/// Law 2: traffic gets the same decisions with its refused requests left out.
///
/// For clocks that do not step back, because the first request after a step back may replace an
/// impossible state, which is for law 5.
pub fn refusal_changes_nothing(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    for Request { now, policy, cost } in scenario.requests() {
        let with_refusals = subject.decide_by(now, policy, "all", cost);
        if with_refusals.is_admitted() {
            let without = subject.decide(now, "admitted only", cost);
            prop_assert_eq!(with_refusals, without);
        }
    }
    Ok(())
}

/// Law 6: several limits admit what each of them admits, and charge all or none; the refusal names
/// the one with the longest wait. `alone` makes a limiter of one limit.
pub fn all_or_nothing<S: Subject>(
    subject: &mut dyn Subject,
    alone: impl Fn(Policy) -> S,
    scenario: &Scenario,
) -> Law {
    let limits = scenario.policy.limits().iter();
    let mut singles: Vec<_> = limits.map(|limit| alone(single(limit))).collect();
    // What each limit has admitted, to ask it again without leaving a trace.
    let mut admitted: Vec<Request<'_>> = Vec::new();
    for (index, request) in scenario.requests().enumerate() {
        let Request { now, policy, cost } = request;
        let key = index.to_string();
        let mut longest = (Some(Duration::ZERO), 0);
        for (index, single_limit) in singles.iter_mut().enumerate() {
            let policy_of = |request: &Request<'_>| request.policy.limits().get(index).map(single);
            for then in &admitted {
                let policy = policy_of(then).expect("the policies have the same families");
                let decision = single_limit.decide_by(then.now, &policy, &key, then.cost);
                prop_assert!(decision.is_admitted());
            }
            let policy = policy_of(&request).expect("the policies have the same families");
            let wait = single_limit.decide_by(now, &policy, &key, cost).retry_after();
            let longer = match (wait, longest.0) {
                (_, None) => false,
                (None, _) => true,
                // Of equal ones, the last.
                (Some(wait), Some(longest)) => wait >= longest,
            };
            if longer {
                longest = (wait, index);
            }
        }
        let decision = subject.decide_by(now, policy, KEY, cost);
        if has_paced_slots(policy) {
            // Its slots may miss the moment at which the others admit.
            let none_earlier = decision.retry_after().is_none() == longest.0.is_none();
            prop_assert!(none_earlier && decision.retry_after() >= longest.0);
        } else {
            prop_assert_eq!(decision.retry_after(), longest.0);
        }
        prop_assert_eq!(decision.is_admitted(), longest.0 == Some(Duration::ZERO));
        if decision.is_admitted() {
            admitted.push(request);
        } else if longest.0.is_some() {
            prop_assert_eq!(decision.limit_index(), longest.1);
        }
    }
    Ok(())
}

/// Returns a policy of one limit.
pub(crate) fn single(limit: &Limit) -> Policy {
    let policy = Policy::new(limit.name(), limit.algorithm(), *limit.quota());
    policy.expect("it was served before")
}

/// Law 10, beside what all the others try: a decision makes sense, whatever was asked.
pub fn decisions_are_coherent(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut before: Option<(Request<'_>, Decision)> = None;
    for request in scenario.requests() {
        let Request { now, policy, cost } = request;
        let decision = subject.decide_by(now, policy, KEY, cost);
        is_coherent(&decision, policy, cost)?;
        if let Some((last_request, last)) = before
            && (last_request.now, last_request.policy) == (now, policy)
            && decision.is_admitted()
            && policy.limits().len() == 1
        {
            let left = last.remaining() - cost.get();
            prop_assert_eq!(decision.remaining(), left, "after {:?}", last);
        }
        before = Some((request, decision));
    }
    Ok(())
}

/// Law 10: the parts of a decision agree with each other.
pub fn is_coherent(decision: &Decision, policy: &Policy, cost: Cost) -> Law {
    let Some(limit) = policy.limits().get(decision.limit_index()) else {
        return Err(TestCaseError::fail("an index without a limit"));
    };
    let largest = largest(limit);
    prop_assert_eq!(decision.burst(), largest);
    prop_assert!(decision.remaining() <= largest);
    if decision.reset_after().is_zero() && !is_paced(limit) {
        prop_assert_eq!(decision.remaining(), largest);
    }
    if decision.is_admitted() {
        prop_assert_eq!(decision.retry_after(), Some(Duration::ZERO));
        prop_assert!(!decision.reset_after().is_zero());
        prop_assert!(decision.remaining() <= largest - cost.get());
    } else {
        prop_assert_ne!(decision.retry_after(), Some(Duration::ZERO));
        prop_assert_eq!(decision.retry_after().is_none(), cost.get() > largest);
        prop_assert!(cost.get() > decision.remaining());
    }
    Ok(())
}

/// Returns the most permits that `limit` can ever give at once.
fn largest(limit: &Limit) -> u64 {
    match limit.algorithm() {
        Algorithm::SubWindows(slots) if slots.is_paced() => {
            limit.quota().permits().div_ceil(slots.number().into())
        }
        _ => limit.quota().burst(),
    }
}

/// Returns the most permits that a policy can ever give at once.
fn most_at_once(policy: &Policy) -> u64 {
    policy.limits().iter().map(largest).min().unwrap_or(1)
}

/// Returns whether a limit of the policy has slots that may admit nothing.
fn has_paced_slots(policy: &Policy) -> bool {
    policy.limits().iter().any(is_paced)
}

fn is_paced(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::SubWindows(slots) if slots.is_paced())
}
