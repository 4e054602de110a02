//! The laws that are about more than checks.

use std::time::Duration;

use limiter_core::{Cost, Kind, Policy, Receipt, Timestamp};
use proptest::prelude::*;

use super::{KEY, Law, waits::longest_recovery};
use crate::{oracle::Admitted, schedule::Scenario, subject::Operations};

/// Law 1 for reservations: counted when they may be used, they stay within the bound, in the order
/// in which they were made, none later than asked for. For clocks that do not step back.
pub fn reservations_keep_the_bound(subject: &mut impl Operations, scenario: &Scenario) -> Law {
    let window = scenario.quota().window();
    let mut admitted = Admitted::default();
    let (mut latest, mut last_use) = (Timestamp::ZERO, Timestamp::ZERO);
    for (index, (now, cost)) in scenario.requests().enumerate() {
        admitted.pass(now.saturating_since(latest));
        latest = now;
        let within = [Duration::ZERO, window / 2, window, window * 3];
        let within = within.get(index % 4).copied().unwrap_or_default();
        let reservation = subject.reserve(now, KEY, cost, within);
        prop_assert_eq!(reservation.delay().is_some(), reservation.decision().is_admitted());
        let Some(delay) = reservation.delay() else {
            let retry = reservation.decision().retry_after();
            let full = queue_is_full(&scenario.policy, retry);
            prop_assert!(retry.is_none_or(|retry| retry > within) || full, "{retry:?}");
            continue;
        };
        prop_assert!(delay <= within);
        let at = now.saturating_add(delay);
        prop_assert!(at >= last_use, "overtakes what was reserved before");
        last_use = at;
        admitted.add_later(cost, delay);
        if delay > Duration::ZERO {
            let overtaking = subject.decide(now, KEY, Cost::ONE);
            prop_assert!(!overtaking.is_admitted());
        }
    }
    for limit in scenario.policy.limits() {
        let over = admitted.over(limit);
        prop_assert!(over.is_none(), "{over:?} is over {limit:?}");
    }
    Ok(())
}

/// Returns whether a wait is longer than a policy lets anyone wait.
fn queue_is_full(policy: &Policy, wait: Option<Duration>) -> bool {
    policy.limits().iter().any(|limit| match limit.kind() {
        Kind::LeakyQueue { depth } => {
            let nanos = limit.quota().window().as_nanos() * u128::from(depth);
            let longest = nanos / u128::from(limit.quota().permits());
            wait.is_none_or(|wait| wait.as_nanos() > longest)
        }
        _ => false,
    })
}

/// Law 7: what is given back at once leaves a key as it was, and what is kept stays taken.
pub fn a_refund_gives_back_what_was_taken(
    subject: &mut impl Operations,
    scenario: &Scenario,
) -> Law {
    for (index, (now, cost)) in scenario.requests().enumerate() {
        let before = subject.peek(now, KEY);
        let Some(receipt) = subject.reserve(now, KEY, cost, Duration::ZERO).into_receipt() else {
            prop_assert_eq!(subject.peek(now, KEY), before, "a refusal changed something");
            continue;
        };
        let kept = [0, 1, cost.get()].get(index % 3).copied().unwrap_or_default();
        subject.refund(now, receipt.keep(kept));
        let after = subject.peek(now, KEY);
        if kept == 0 {
            prop_assert_eq!(after, before);
        } else if scenario.policy.limits().len() == 1 {
            prop_assert_eq!(after.remaining(), before.remaining() - kept);
        }
    }
    Ok(())
}

/// Law 7, and law 1 with refunds: what was admitted and not given back stays within the bound,
/// whenever it is given back.
pub fn refunds_never_lift_above_the_bound(
    subject: &mut impl Operations,
    scenario: &Scenario,
) -> Law {
    let mut admitted = Admitted::default();
    let mut receipts: Vec<(usize, Receipt)> = Vec::new();
    let mut latest = Timestamp::ZERO;
    for (index, (now, cost)) in scenario.requests().enumerate() {
        admitted.pass(now.saturating_since(latest));
        latest = now;
        if index % 3 == 2 && !receipts.is_empty() {
            let (addition, receipt) = receipts.swap_remove(index / 3 % receipts.len());
            subject.refund(now, receipt);
            admitted.take_back(addition);
            let usage = subject.peek(now, KEY);
            prop_assert!(usage.remaining() <= usage.limit());
        }
        if let Some(receipt) = subject.reserve(now, KEY, cost, Duration::ZERO).into_receipt() {
            receipts.push((admitted.len(), receipt));
            admitted.add(cost);
        }
    }
    for limit in scenario.policy.limits() {
        let over = admitted.over(limit);
        prop_assert!(over.is_none(), "{over:?} is over {limit:?}");
    }
    Ok(())
}

/// Law 7, however the clock steps and whatever is reset: one refund gives back no more than its
/// receipt has taken.
pub fn a_refund_gives_back_no_more_than_was_taken(
    subject: &mut impl Operations,
    scenario: &Scenario,
) -> Law {
    let mut receipts: Vec<Receipt> = Vec::new();
    for (index, (now, cost)) in scenario.requests().enumerate() {
        match index % 8 {
            2 | 4 | 7 if !receipts.is_empty() => {
                let receipt = receipts.swap_remove(index / 3 % receipts.len());
                let (before, permits) = (subject.peek(now, KEY), receipt.permits());
                subject.refund(now, receipt);
                let after = subject.peek(now, KEY);
                prop_assert!(after.remaining() <= before.remaining().saturating_add(permits));
                let same_limit = after.limit_index() == before.limit_index();
                prop_assert!(!same_limit || after.reset_after() <= before.reset_after());
            }
            5 if index % 3 == 0 => subject.reset(now, KEY),
            // Nothing for later: what waits behind that comes back with it.
            _ => {
                let reservation = subject.reserve(now, KEY, cost, Duration::ZERO);
                receipts.extend(reservation.into_receipt());
            }
        }
    }
    Ok(())
}

/// Law 9 for a replaced policy: what was just taken is still taken, and nothing waits longer than
/// the new quota can make it wait.
pub fn a_changed_quota_keeps_the_debt(
    subject: &mut impl Operations,
    scenario: &Scenario,
    other: &Policy,
) -> Law {
    let mut current = (&scenario.policy, other);
    for (index, (now, cost)) in scenario.requests().enumerate() {
        let admitted = subject.decide(now, KEY, cost).is_admitted();
        if index % 4 == 3 {
            current = (current.1, current.0);
            subject.replace(now, current.0.clone());
            let usage = subject.peek(now, KEY);
            if admitted {
                let taken = cost.get().min(usage.limit());
                prop_assert!(usage.used() >= taken, "{cost} taken, {usage:?} after");
            }
            let longest = longest_recovery(current.0, subject.tick());
            prop_assert!(usage.reset_after() <= longest, "{usage:?}");
            let retry = subject.decide(now, KEY, Cost::ONE).retry_after();
            prop_assert!(retry.is_some_and(|retry| retry <= longest), "{retry:?}");
        }
    }
    Ok(())
}

/// Law 9 for tiers: what a key takes by one is taken from the other too, as far as that remembers
/// any; and tiers that take turns admit no more than each allows, nor make each other wait.
pub fn tiers_never_add_up(
    subject: &mut impl Operations,
    scenario: &Scenario,
    other: &Policy,
) -> Law {
    let mut own = Admitted::default();
    let mut latest = Timestamp::ZERO;
    for (index, (now, cost)) in scenario.requests().enumerate() {
        own.pass(now.saturating_since(latest));
        latest = now;
        if index % 2 == 1 {
            if subject.decide_by(now, other.name(), KEY, cost).is_admitted() {
                let usage = subject.peek(now, KEY);
                let taken = cost.get().min(usage.limit());
                prop_assert!(usage.used() >= taken, "{cost} taken, {usage:?} after");
            }
        } else if subject.decide(now, KEY, cost).is_admitted() {
            own.add(cost);
        }
        let usage = subject.peek(now, KEY);
        let longest = longest_recovery(&scenario.policy, subject.tick());
        prop_assert!(usage.reset_after() <= longest, "{usage:?}");
    }
    for limit in scenario.policy.limits() {
        let over = own.over(limit);
        prop_assert!(over.is_none(), "{over:?} is over {limit:?}");
    }
    Ok(())
}

/// Law 9 for tiers, and law 1 for reservations: what a tier has promised for later keeps its place,
/// whatever another one admits meanwhile. For clocks that do not step back.
pub fn tiers_keep_what_was_promised(
    subject: &mut impl Operations,
    scenario: &Scenario,
    other: &Policy,
) -> Law {
    let within = scenario.quota().window() * 3;
    let mut own = Admitted::default();
    let (mut latest, mut last_use) = (Timestamp::ZERO, Timestamp::ZERO);
    for (index, (now, cost)) in scenario.requests().enumerate() {
        own.pass(now.saturating_since(latest));
        latest = now;
        if index % 3 == 2 {
            let usage = subject.decide_by(now, other.name(), KEY, Cost::ONE).usage();
            prop_assert!(usage.remaining() <= usage.limit());
        } else if let Some(delay) = subject.reserve(now, KEY, cost, within).delay() {
            let at = now.saturating_add(delay);
            prop_assert!(at >= last_use, "overtakes what was reserved before");
            last_use = at;
            own.add_later(cost, delay);
        }
    }
    for limit in scenario.policy.limits() {
        let over = own.over(limit);
        prop_assert!(over.is_none(), "{over:?} is over {limit:?}");
    }
    Ok(())
}
