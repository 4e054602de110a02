//! The laws about how long something takes.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy, Timestamp};
use proptest::prelude::*;

use super::{KEY, Law, has_paced_slots, is_paced, most_at_once};
use crate::{
    schedule::{self, Request, Scenario, slot_of},
    subject::Subject,
};

/// Law 3: a refused request is admitted after its `retry_after`, and not a tick earlier.
///
/// Time continues from each retry. A clock that steps back before a request must not matter.
pub fn retry_after_is_exact(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut offset = Duration::ZERO;
    for Request { now, policy, cost } in scenario.requests() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let most = most_at_once(policy);
        let decision = subject.decide_by(now, policy, KEY, cost);
        prop_assert_eq!(decision.retry_after().is_none(), cost.get() > most);
        if let (false, Some(wait)) = (decision.is_admitted(), decision.retry_after()) {
            is_exact(wait, subject, now, cost)?;
            offset += wait;
        }
    }
    Ok(())
}

/// Checks that a cost that is refused now is admitted after its wait, and not a tick earlier.
pub(super) fn is_exact(
    wait: Duration,
    subject: &mut dyn Subject,
    now: Timestamp,
    cost: Cost,
) -> Law {
    let tick = subject.tick();
    prop_assert!(wait >= tick, "a refusal with a wait of {wait:?}");
    let early = subject.decide(now.saturating_add(wait - tick), KEY, cost);
    prop_assert!(!early.is_admitted(), "admitted a tick before {wait:?}");
    prop_assert_eq!(early.retry_after(), Some(tick));
    let due = subject.decide(now.saturating_add(wait), KEY, cost);
    prop_assert!(due.is_admitted(), "refused after {wait:?}: {due:?}");
    Ok(())
}

/// Law 4: a key is fresh `reset_after` later, like a key that was never seen, and not a tick
/// earlier.
///
/// Of several limits, `reset_after` describes one, so that the longest recovery is waited for.
pub fn recovered_equals_absent(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let mut offset = Duration::ZERO;
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        let limits = policy.limits();
        let all = Cost::of(most_at_once(policy));
        // The ceiling of a slot may admit all that ever fits before the window has recovered.
        let all_need_all = limits.len() == 1 && !has_paced_slots(policy);
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let decision = subject.decide_by(now, policy, KEY, cost);
        let reset = match limits {
            [_] => decision.reset_after(),
            _ => longest_recovery(scenario, tick),
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

/// Law 5: however the clock has stepped, no wait is longer than one recovery and the horizon.
pub fn no_wait_outlasts_a_recovery(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let longest = longest_recovery(scenario, subject.tick());
    for Request { now, policy, cost } in scenario.requests() {
        let decision = subject.decide_by(now, policy, KEY, cost);
        let wait = decision.reset_after().max(decision.retry_after().unwrap_or_default());
        prop_assert!(wait <= longest, "{wait:?} for {policy:?}");
    }
    Ok(())
}

/// Returns how long a key can take at most to recover after a step back of the clock, by whichever
/// quota takes longest.
pub(super) fn longest_recovery(scenario: &Scenario, tick: Duration) -> Duration {
    let limits: Vec<_> = scenario.policies().flat_map(Policy::limits).collect();
    let longest = |limits: &mut dyn Iterator<Item = &&Limit>, of: fn(&Limit) -> Duration| {
        limits.map(|limit| of(limit)).max().unwrap_or_default()
    };
    // A log keeps the longest window, slot and horizon of all that wrote. A paced limit may miss the
    // moment at which the others admit.
    let paced = &mut limits.iter().filter(|limit| is_paced(limit));
    longest(&mut limits.iter(), recovery)
        + longest(&mut limits.iter(), slots_ahead)
        + longest(&mut limits.iter(), Limit::horizon)
        // A slot of another key is freed by the longest debt of all quotas, which is rounded up.
        + (longest(&mut limits.iter(), recovery) + longest(&mut limits.iter(), Limit::horizon)) / 256
        + longest(paced, recovery)
        // How much longer than that a debt may be until a step back has made it impossible.
        + 10 * tick
}

/// Returns how long a limit takes to recover when all was taken, with one in 800 for rounding.
fn recovery(limit: &Limit) -> Duration {
    let quota = limit.quota();
    let window = quota.window().as_nanos();
    let exact = match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SubWindows(_) | Algorithm::SlidingLog => window,
        // The present window, where a clock has stepped back, and the one that was counted.
        Algorithm::AlignedWindow => 2 * window,
        // The window, and the one in which it fades.
        Algorithm::SlidingCounter => 2 * window,
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
            (window * u128::from(quota.burst())).div_ceil(u128::from(quota.permits()))
        }
    };
    let nanos = exact + exact.div_ceil(800) + 2_000;
    Duration::from_nanos(u64::try_from(nanos).expect("a recovery is within decades"))
}

/// Returns for how much longer than a window sub-windows count: for the present slot, and where a
/// clock has stepped back for the next one.
fn slots_ahead(limit: &Limit) -> Duration {
    match limit.algorithm() {
        Algorithm::SubWindows(_) => Duration::from_nanos(2 * slot_of(limit)),
        _ => Duration::ZERO,
    }
}
