//! The laws about charges of as many permits as fit, and of permits in any case.

use std::time::Duration;

use limiter_core::{Cost, Limit};
use proptest::{prelude::*, test_runner::TestCaseError};

use super::{
    KEY, Law, has_paced_slots, most_at_once, stays_within,
    waits::{is_exact, longest_recovery},
};
use crate::{
    oracle::{Admitted, Model},
    schedule::{self, Request, Scenario},
    subject::Subject,
};

/// The most permits that these laws charge in any case, so that no count saturates.
const MAX_CHARGE: u64 = 1_000_000_000_000;

/// Law 1, and law 3 for one permit: what is taken up to a number is what remains, or that number; nothing only
/// if nothing remains, with the wait for one permit. A part is given back at once.
pub fn taking_takes_what_fits(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut admitted = Admitted::by_ticks_of(subject.tick());
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        admitted.set_clock(now);
        subject.switch(policy);
        let before = subject.peek(now, KEY);
        let taken = subject.take_up_to(now, KEY, cost);
        let (decision, permits) = (taken.decision(), taken.permits());
        prop_assert_eq!(permits, cost.get().min(before.remaining()), "of {:?}", before);
        let delay = (permits > 0).then_some(Duration::ZERO);
        prop_assert_eq!((taken.delay(), decision.is_admitted()), (delay, permits > 0));
        let Some(receipt) = taken.into_receipt() else {
            prop_assert_eq!(permits, 0);
            let refusal = subject.decide(now, KEY, Cost::ONE);
            prop_assert_eq!(decision, refusal, "the wait for one permit");
            prop_assert_eq!(subject.peek(now, KEY), before, "a refusal changed something");
            continue;
        };
        prop_assert_eq!(receipt.permits(), permits);
        let is_single = policy.limits().len() == 1;
        if is_single {
            prop_assert_eq!(decision.remaining(), before.remaining() - permits);
        }
        let kept = if index % 3 == 0 { permits.div_ceil(2) } else { permits };
        prop_assert_eq!(subject.refund(now, receipt.keep(kept)), permits - kept);
        if let Ok(kept) = Cost::new(kept) {
            admitted.add(policy, kept);
        }
    }
    stays_within(&admitted)
}

/// Law 1 for charges in any case: if each request checks one permit and is then charged up to `n`, one after the
/// other, all is charged, and what was admitted stays within the bound that [`charge`] publishes. For one
/// policy.
///
/// [`charge`]: limiter_core::Limiter::charge
pub fn charges_afterwards_keep_the_bound(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut admitted = Admitted::by_ticks_of(subject.tick());
    let most = scenario.policy.limits().iter().map(most_within_the_horizon).min().unwrap_or(0);
    let mut largest = 0;
    for Request { now, cost, .. } in scenario.requests() {
        admitted.set_clock(now);
        if subject.decide(now, KEY, Cost::ONE).is_admitted() {
            admitted.add(&scenario.policy, Cost::ONE);
            if let Ok(cost) = Cost::new(cost.get().min(most)) {
                let charged = subject.charge(now, KEY, cost);
                prop_assert_eq!(charged.permits(), cost.get(), "{:?}", charged);
                admitted.add(&scenario.policy, cost);
                largest = largest.max(cost.get());
            }
        }
    }
    prop_assert_eq!(admitted.over_with(largest), None, "with {}", largest);
    Ok(())
}

/// Returns how many permits a limit charges at least in any case if one has just fitted.
fn most_within_the_horizon(limit: &Limit) -> u64 {
    if !limit.algorithm().is_continuous() {
        return MAX_CHARGE;
    }
    let quota = limit.quota();
    let permits =
        limit.horizon().as_nanos() * u128::from(quota.permits()) / quota.window().as_nanos();
    // The time of a permit is rounded up: at 5,000,000/s, by 0.125 %.
    u64::try_from(permits * 799 / 800).unwrap_or(u64::MAX).min(MAX_CHARGE)
}

/// Law 1 from both sides, for limits with windows: each charge in any case is counted if no more than the limit
/// counts, and what is taken or remains afterwards is what the definition says. For one policy, and clocks
/// that do not step back.
pub fn charges_follow_the_definition(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    follow_the_definition(subject, scenario, 3)
}

/// Makes `kinds` of requests in turn: checks, charges in any case, and requests for as many permits as fit.
pub(super) fn follow_the_definition(
    subject: &mut dyn Subject,
    scenario: &Scenario,
    kinds: usize,
) -> Law {
    let models = scenario.policy.limits().iter().map(Model::new);
    let Some(mut models) = models.collect::<Option<Vec<_>>>() else {
        return Err(TestCaseError::reject("a limit without a model"));
    };
    for (index, Request { now, cost, .. }) in scenario.requests().enumerate() {
        let fits = |models: &[Model], cost| models.iter().all(|model| model.fits(now, cost));
        let (decision, taken) = match index % kinds {
            0 => {
                let decision = subject.decide(now, KEY, cost);
                let fits = fits(&models, cost);
                prop_assert_eq!(decision.is_admitted(), fits, "{} at {:?}", cost, now);
                (decision, if fits { cost.get() } else { 0 })
            }
            1 => {
                let cost = cost.min(Cost::of(MAX_CHARGE));
                let charged = subject.charge(now, KEY, cost);
                let all = models.iter().all(|model| !model.is_overshot(now));
                prop_assert_eq!(charged.permits(), if all { cost.get() } else { 0 });
                for model in models.iter_mut().filter(|model| !model.is_overshot(now)) {
                    model.take(now, cost);
                }
                (charged.decision(), 0)
            }
            _ => {
                let taken = subject.take_up_to(now, KEY, cost);
                if let Ok(permits) = Cost::new(taken.permits()) {
                    prop_assert!(fits(&models, permits), "{permits} do not fit");
                }
                let more = Cost::of(taken.permits().saturating_add(1));
                prop_assert!(more > cost || !fits(&models, more), "{more} fit");
                (taken.decision(), taken.permits())
            }
        };
        if let Ok(taken) = Cost::new(taken) {
            models.iter_mut().for_each(|model| model.take(now, taken));
        }
        if let [model] = models.as_slice() {
            if let Ok(rest) = Cost::new(decision.remaining()) {
                prop_assert!(model.fits(now, rest), "{rest} do not remain at {now:?}");
            }
            let more = Cost::of(decision.remaining() + 1);
            prop_assert!(!model.fits(now, more), "{more} remain at {now:?}");
        }
    }
    Ok(())
}

/// Laws 3 and 4 after a charge in any case: it is an admission, one permit is refused until the wait is over and
/// admitted then, and the key is fresh after the reset that was returned, if it is the policy's only limit.
///
/// Time continues from each wait.
pub fn waits_after_a_charge_are_exact(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let tick = subject.tick();
    let mut offset = Duration::ZERO;
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        let now = now.saturating_add(offset);
        if now > schedule::END {
            break;
        }
        subject.switch(policy);
        let charged = subject.charge(now, KEY, cost.min(Cost::of(MAX_CHARGE)));
        let decision = charged.decision();
        prop_assert_eq!((charged.delay(), decision.is_admitted()), (Some(Duration::ZERO), true));
        prop_assert!(charged.permits() <= cost.get());
        let has_receipt = charged.permits() > 0;
        prop_assert_eq!(charged.into_receipt().is_some(), has_receipt);
        if index % 3 == 0 {
            let reset = match policy.limits() {
                [_] => decision.reset_after(),
                _ => longest_recovery(scenario, tick),
            };
            let (later, all) = (now.saturating_add(reset), Cost::of(most_at_once(policy)));
            // A key that has recovered gets the same decision as one that was never seen.
            let absent = format!("never seen {index}");
            let [recovered, absent] =
                [KEY, &absent].map(|key| subject.take_up_to(later, key, all).decision());
            prop_assert_eq!(recovered, absent);
            offset += reset;
            continue;
        }
        let check = subject.decide(now, KEY, Cost::ONE);
        if let (false, Some(wait)) = (check.is_admitted(), check.retry_after()) {
            prop_assert_eq!(check.remaining(), 0);
            is_exact(wait, subject, now, Cost::ONE)?;
            offset += wait;
        } else {
            prop_assert!(check.is_admitted() || has_paced_slots(policy), "{check:?}");
        }
    }
    Ok(())
}
