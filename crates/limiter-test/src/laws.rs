//! The laws as properties: each takes a limiter and a random scenario, and says what it broke.

#![expect(clippy::missing_errors_doc, reason = "every error is the case that breaks the law")]

use std::time::Duration;

use limiter_core::{Cost, Decision, Timestamp};
use proptest::{prelude::*, test_runner::TestCaseError};

use crate::{
    oracle::Bucket,
    schedule::{self, Scenario},
    subject::Subject,
};

/// A law: it holds, or the case that breaks it is told.
pub type Law = Result<(), TestCaseError>;

const KEY: &str = "key";

/// Law 1, and law 5 where the clock steps back: admissions stay within the burst plus the quota's
/// rate, over every stretch of time that has passed, however the clock jumps.
pub fn never_over(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let mut bucket = Bucket::exact(&scenario.quota);
    let mut latest = Timestamp::ZERO;
    for (now, cost) in scenario.requests() {
        bucket.refill(now.saturating_since(latest));
        latest = now;
        if subject.decide(now, KEY, cost).is_admitted() {
            prop_assert!(bucket.has(cost), "{cost} at {now:?} is over {}", scenario.quota);
            bucket.take(cost);
        }
    }
    Ok(())
}

/// The other side of law 1: what is refused would not have fitted at a rate one in a thousand
/// lower. For clocks that do not step back.
pub fn never_stingy(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let mut bucket = Bucket::slower(&scenario.quota, 1);
    let mut latest = Timestamp::ZERO;
    for (now, cost) in scenario.requests() {
        bucket.refill(now.saturating_since(latest));
        latest = now;
        if subject.decide(now, KEY, cost).is_admitted() {
            bucket.take(cost);
        } else {
            prop_assert!(!bucket.has(cost), "{cost} at {now:?} fits {}", scenario.quota);
        }
    }
    Ok(())
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

/// Law 3: the wait that a refusal tells is enough, and one tick less is not.
///
/// Time goes on from each retry. A clock that steps back before a request must not matter.
pub fn retry_after_is_exact(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let burst = scenario.quota.burst();
    let mut offset = Duration::ZERO;
    for (now, cost) in scenario.requests() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let decision = subject.decide(now, KEY, cost);
        prop_assert_eq!(decision.retry_after().is_none(), cost.get() > burst);
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
pub fn recovered_equals_absent(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let burst = Cost::new(scenario.quota.burst()).expect("a burst is not zero");
    let mut offset = Duration::ZERO;
    for (index, (now, cost)) in scenario.requests().enumerate() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        let reset = subject.decide(now, KEY, cost).reset_after();
        if reset >= tick {
            let early = subject.decide(now.saturating_add(reset - tick), KEY, burst);
            prop_assert!(!early.is_admitted(), "recovered a tick before {reset:?}");
        }
        let later = now.saturating_add(reset);
        let recovered = subject.decide(later, KEY, burst);
        let absent = subject.decide(later, &format!("never seen {index}"), burst);
        prop_assert_eq!(recovered, absent);
        offset += reset;
    }
    Ok(())
}

/// Law 5: however the clock has stepped, no wait is longer than one recovery.
pub fn no_wait_outlasts_a_recovery(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let quota = &scenario.quota;
    let nanos = quota.window().as_nanos() * u128::from(quota.burst());
    // One in a thousand for the rounding of the rate, and a tick for that of the wait.
    let exact = nanos.div_ceil(u128::from(quota.permits())) + subject.tick().as_nanos();
    let longest = u64::try_from(exact + exact / 1_000).expect("a recovery is within five years");
    for (now, cost) in scenario.requests() {
        let decision = subject.decide(now, KEY, cost);
        let wait = decision.reset_after().max(decision.retry_after().unwrap_or_default());
        prop_assert!(wait <= Duration::from_nanos(longest), "{wait:?} for {quota}");
    }
    Ok(())
}

/// Law 10, beside what all the others try: a decision makes sense, whatever was asked.
pub fn decisions_are_coherent(subject: &mut impl Subject, scenario: &Scenario) -> Law {
    let burst = scenario.quota.burst();
    let mut before: Option<(Timestamp, Decision)> = None;
    for (now, cost) in scenario.requests() {
        let decision = subject.decide(now, KEY, cost);
        prop_assert_eq!(decision.limit(), burst);
        prop_assert!(decision.remaining() <= burst);
        prop_assert!(!decision.reset_after().is_zero() || decision.remaining() == burst);
        if decision.is_admitted() {
            prop_assert_eq!(decision.retry_after(), Some(Duration::ZERO));
            prop_assert!(!decision.reset_after().is_zero());
            prop_assert!(decision.remaining() <= burst - cost.get());
        } else {
            prop_assert!(cost.get() > decision.remaining());
        }
        if let Some((then, last)) = before
            && then == now
            && decision.is_admitted()
        {
            prop_assert_eq!(decision.remaining(), last.remaining() - cost.get());
        }
        before = Some((now, decision));
    }
    Ok(())
}
