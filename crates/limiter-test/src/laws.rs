//! The laws as properties: each takes a limiter and a random scenario, and says what it broke.

#![expect(clippy::missing_errors_doc, reason = "every error is the case that breaks the law")]

mod operations;
mod waits;

use std::time::Duration;

use limiter_core::{Cost, Decision, Kind, Limit, Policy, Timestamp};
use proptest::{prelude::*, test_runner::TestCaseError};

pub use operations::{
    a_changed_quota_keeps_the_debt, a_refund_gives_back_no_more_than_was_taken,
    a_refund_gives_back_what_was_taken, refunds_never_lift_above_the_bound,
    reservations_keep_the_bound, tiers_keep_what_was_promised, tiers_never_add_up,
};
pub use waits::{no_wait_outlasts_a_recovery, recovered_equals_absent, retry_after_is_exact};

use crate::{
    oracle::{Admitted, Bucket, Model},
    schedule::Scenario,
    subject::Subject,
};

/// A law: it holds, or the case that breaks it is told.
pub type Law = Result<(), TestCaseError>;

const KEY: &str = "key";

/// Law 1, and law 5 where the clock steps back: admissions stay within the published bound of each
/// limit, over every stretch of time that has passed, however the clock jumps.
pub fn never_over(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let mut admitted = Admitted::default();
    let mut latest = Timestamp::ZERO;
    for (now, cost) in scenario.requests() {
        admitted.pass(now.saturating_since(latest));
        latest = now;
        if subject.decide(now, KEY, cost).is_admitted() {
            admitted.add(cost);
        }
    }
    for limit in scenario.policy.limits() {
        let over = admitted.over(limit);
        prop_assert!(over.is_none(), "{over:?} is over {limit:?}");
    }
    Ok(())
}

/// The other side of law 1, for limits by a rate: what is refused would not have fitted at a rate
/// one in a thousand lower. For clocks that do not step back.
pub fn never_stingy(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let mut bucket = Bucket::slower(&scenario.quota(), 1);
    let mut latest = Timestamp::ZERO;
    for (now, cost) in scenario.requests() {
        bucket.refill(now.saturating_since(latest));
        latest = now;
        if subject.decide(now, KEY, cost).is_admitted() {
            bucket.take(cost);
        } else {
            prop_assert!(!bucket.has(cost), "{cost} at {now:?} fits {}", scenario.quota());
        }
    }
    Ok(())
}

/// Law 1 from both sides, for limits with windows: each decision is that of the definition, and
/// what remains is what would fit. For clocks that do not step back.
pub fn windows_follow_their_definition(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let models = scenario.policy.limits().iter().filter(|limit| !is_coarse(limit)).map(Model::new);
    let Some(mut models) = models.collect::<Option<Vec<_>>>() else {
        return Err(TestCaseError::reject("a limit without a model"));
    };
    prop_assume!(models.len() == scenario.policy.limits().len());
    for (now, cost) in scenario.requests() {
        let fits = models.iter().all(|model| model.fits(now, cost));
        let decision = subject.decide(now, KEY, cost);
        prop_assert_eq!(decision.is_admitted(), fits, "{} at {:?}", cost, now);
        if fits {
            models.iter_mut().for_each(|model| model.take(now, cost));
        }
        if let [model] = models.as_slice() {
            if let Ok(rest) = Cost::new(decision.remaining()) {
                prop_assert!(model.fits(now, rest), "{rest} do not remain at {now:?}");
            }
            let more = Cost::new(decision.remaining() + 1).expect("not zero");
            prop_assert!(!model.fits(now, more), "{more} remain at {now:?}");
        }
    }
    Ok(())
}

/// Returns whether a limit's windows begin a bit earlier than their first use.
fn is_coarse(limit: &Limit) -> bool {
    let by_first_use = limit.kind() == Kind::FixedWindow(limiter_core::algorithm::Start::FirstUse);
    by_first_use && limit.quota().permits() > 15
}

/// Law 2: traffic decides alike with its refused requests left out.
///
/// For clocks that do not step back: the first decision after a step back may lower the debt,
/// which is for law 5.
pub fn refusal_changes_nothing(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    for (now, cost) in scenario.requests() {
        let with_refusals = subject.decide(now, "all", cost);
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
    subject: &mut impl Subject,
    alone: impl Fn(Policy) -> S,
    scenario: &Scenario,
) -> Law {
    let limits = scenario.policy.limits().iter();
    let policy = |limit: &Limit| Policy::new(limit.name(), limit.kind(), *limit.quota());
    let mut singles: Vec<_> =
        limits.map(|limit| alone(policy(limit).expect("it was held before"))).collect();
    // What each limit has admitted, to ask it again without leaving a trace.
    let mut admitted: Vec<(Timestamp, Cost)> = Vec::new();
    for (index, (now, cost)) in scenario.requests().enumerate() {
        let key = index.to_string();
        let mut longest = (Some(Duration::ZERO), 0);
        for (limit, single) in singles.iter_mut().enumerate() {
            for (then, cost) in &admitted {
                prop_assert!(single.decide(*then, &key, *cost).is_admitted());
            }
            let wait = single.decide(now, &key, cost).retry_after();
            let longer = match (wait, longest.0) {
                (_, None) => false,
                (None, _) => true,
                // Of equal ones, the last.
                (Some(wait), Some(longest)) => wait >= longest,
            };
            if longer {
                longest = (wait, limit);
            }
        }
        let decision = subject.decide(now, KEY, cost);
        if scenario.policy.limits().iter().any(is_paced) {
            // Its slots may miss the moment at which the others admit.
            let none_earlier = decision.retry_after().is_none() == longest.0.is_none();
            prop_assert!(none_earlier && decision.retry_after() >= longest.0);
        } else {
            prop_assert_eq!(decision.retry_after(), longest.0);
        }
        prop_assert_eq!(decision.is_admitted(), longest.0 == Some(Duration::ZERO));
        if decision.is_admitted() {
            admitted.push((now, cost));
        } else if longest.0.is_some() {
            prop_assert_eq!(decision.limit_index(), longest.1);
        }
    }
    Ok(())
}

/// Law 10, beside what all the others try: a decision makes sense, whatever was asked.
pub fn decisions_are_coherent(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let policy = &scenario.policy;
    let mut before: Option<(Timestamp, Decision)> = None;
    for (now, cost) in scenario.requests() {
        let decision = subject.decide(now, KEY, cost);
        let Some(limit) = policy.limits().get(decision.limit_index()) else {
            return Err(TestCaseError::fail("a limit that there is not"));
        };
        let largest = largest(limit);
        prop_assert_eq!(decision.limit(), largest);
        prop_assert!(decision.remaining() <= largest);
        if !decision.reset_after().is_zero() || is_paced(limit) {
            prop_assert!(decision.remaining() <= largest);
        } else {
            prop_assert_eq!(decision.remaining(), largest);
        }
        if decision.is_admitted() {
            prop_assert_eq!(decision.retry_after(), Some(Duration::ZERO));
            prop_assert!(!decision.reset_after().is_zero());
            prop_assert!(decision.remaining() <= largest - cost.get());
        } else {
            prop_assert!(cost.get() > decision.remaining());
        }
        if let Some((then, last)) = before
            && then == now
            && decision.is_admitted()
            && policy.limits().len() == 1
        {
            prop_assert_eq!(decision.remaining(), last.remaining() - cost.get());
        }
        before = Some((now, decision));
    }
    Ok(())
}

/// Returns the most permits that `limit` can ever give at once.
fn largest(limit: &Limit) -> u64 {
    match limit.kind() {
        Kind::SubWindows(slots) if slots.is_paced() => {
            limit.quota().permits().div_ceil(slots.number().into())
        }
        _ => limit.quota().burst(),
    }
}

fn is_paced(limit: &Limit) -> bool {
    matches!(limit.kind(), Kind::SubWindows(slots) if slots.is_paced())
}
