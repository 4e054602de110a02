//! The laws that are about how long something takes.

use std::time::Duration;

use limiter_core::{Cost, Kind, Limit, Policy, algorithm::Start};
use proptest::prelude::*;

use super::{KEY, Law, is_paced, largest};
use crate::{
    schedule::{self, Scenario},
    subject::Subject,
};

/// Law 3: the wait that a refusal tells is enough, and one tick less is not.
///
/// Time goes on from each retry. A clock that steps back before a request must not matter.
pub fn retry_after_is_exact(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let most = scenario.policy.limits().iter().map(largest).min().unwrap_or(0);
    let mut offset = Duration::ZERO;
    for (now, cost) in scenario.requests() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let decision = subject.decide(now, KEY, cost);
        prop_assert_eq!(decision.retry_after().is_none(), cost.get() > most);
        if let (false, Some(wait)) = (decision.is_admitted(), decision.retry_after()) {
            prop_assert!(wait >= tick, "a refusal with a wait of {wait:?}");
            let early = subject.decide(now.saturating_add(wait - tick), KEY, cost);
            prop_assert!(!early.is_admitted(), "admitted a tick before {wait:?}");
            prop_assert_eq!(early.retry_after(), Some(tick));
            let due = subject.decide(now.saturating_add(wait), KEY, cost);
            prop_assert!(due.is_admitted(), "refused after {wait:?}: {due:?}");
            offset += wait;
        }
    }
    Ok(())
}

/// Law 4: a key is fresh `reset_after` later, like a key that was never seen, and not a tick
/// earlier.
///
/// Of several limits, `reset_after` tells of one, so that the longest recovery is waited for.
pub fn recovered_equals_absent(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let limits = scenario.policy.limits();
    let most = limits.iter().map(largest).min().unwrap_or(1);
    let all = Cost::new(most).expect("a limit is not zero");
    // The ceiling of a slot may admit all that ever fits before the window has recovered.
    let all_need_all = limits.len() == 1 && !limits.iter().any(is_paced);
    let mut offset = Duration::ZERO;
    for (index, (now, cost)) in scenario.requests().enumerate() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let decision = subject.decide(now, KEY, cost);
        let reset = match limits {
            [_] => decision.reset_after(),
            _ => longest_recovery(&scenario.policy, tick),
        };
        if reset >= tick && all_need_all {
            let early = subject.decide(now.saturating_add(reset - tick), KEY, all);
            prop_assert!(!early.is_admitted(), "recovered a tick before {reset:?}");
        }
        let later = now.saturating_add(reset);
        let recovered = subject.decide(later, KEY, all);
        let absent = subject.decide(later, &format!("never seen {index}"), all);
        prop_assert_eq!(recovered, absent);
        offset += reset;
    }
    Ok(())
}

/// Law 5: however the clock has stepped, no wait is longer than one recovery.
pub fn no_wait_outlasts_a_recovery(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let longest = longest_recovery(&scenario.policy, subject.tick());
    for (now, cost) in scenario.requests() {
        let decision = subject.decide(now, KEY, cost);
        let wait = decision.reset_after().max(decision.retry_after().unwrap_or_default());
        prop_assert!(wait <= longest, "{wait:?} for {:?}", scenario.policy);
    }
    Ok(())
}

/// Returns how long a key can take at most to recover, by whichever limit takes longest.
pub(super) fn longest_recovery(policy: &Policy, tick: Duration) -> Duration {
    let recoveries = policy.limits().iter().map(recovery);
    recoveries.max().unwrap_or_default() + tick
}

/// Returns how long a limit takes to recover when all was taken, with one in a thousand for
/// rounding.
fn recovery(limit: &Limit) -> Duration {
    let quota = limit.quota();
    let window = quota.window().as_nanos();
    let exact = match limit.kind() {
        Kind::FixedWindow(Start::FirstUse) | Kind::SlidingLog => window,
        // The present one, where a clock has stepped back, and the one that was counted.
        Kind::FixedWindow(Start::Aligned) => 2 * window,
        // The window, and the one in which it fades.
        Kind::SlidingCounter => 2 * window,
        // The window and the present slot, and as long again until a slot's ceiling is high enough.
        Kind::SubWindows(slots) => {
            let strict = window + window / u128::from(slots.number());
            if slots.is_paced() { 2 * strict } else { strict }
        }
        _ => (window * u128::from(quota.burst())).div_ceil(u128::from(quota.permits())),
    };
    let nanos = exact + exact.div_ceil(1_000) + 2_000;
    Duration::from_nanos(u64::try_from(nanos).expect("a recovery is within decades"))
}
