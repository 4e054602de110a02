//! The laws about more than checks.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy, Receipt, Source, Timestamp};
use proptest::prelude::*;

use super::{KEY, Law, stays_within};
use crate::{
    oracle::Admitted,
    schedule::{Request, Scenario},
    subject::Subject,
};

/// Law 1 for reservations: counted when they may be used, they stay within the bound, none later
/// than asked for, none beyond the horizon, and in order. For clocks that do not step back.
pub fn reservations_keep_the_bound(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let window = scenario.quota().window();
    let mut admitted = Admitted::by_ticks_of(subject.tick());
    let mut last_use = Timestamp::ZERO;
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        admitted.set_clock(now);
        let within = [Duration::ZERO, window / 2, window, window * 3, Duration::MAX];
        let within = within.get(index % 5).copied().unwrap_or_default();
        subject.switch(policy);
        let reservation = subject.reserve(now, KEY, cost, within);
        let horizon = shortest_horizon(policy, subject.tick());
        prop_assert_eq!(reservation.delay().is_some(), reservation.decision().is_admitted());
        let Some(delay) = reservation.delay() else {
            let retry = reservation.decision().retry_after();
            let longest = within.min(horizon);
            let in_vain = retry.is_none_or(|retry| retry > longest);
            let has_slot = reservation.decision().source() != Source::FullTable;
            prop_assert!(in_vain || !has_slot, "{retry:?}");
            continue;
        };
        prop_assert!(delay <= within.min(horizon + slack(policy, subject.tick())));
        let at = now.saturating_add(delay);
        prop_assert!(at >= last_use || scenario.is_mixed(), "overtakes an earlier reservation");
        last_use = at;
        admitted.add_later(policy, cost, delay);
        if delay > Duration::ZERO {
            let overtaking = subject.decide(now, KEY, Cost::ONE);
            prop_assert!(!overtaking.is_admitted());
        }
    }
    stays_within(&admitted)
}

/// The shortest horizon of a limit, in whole ticks.
fn shortest_horizon(policy: &Policy, tick: Duration) -> Duration {
    let shortest = policy.limits().iter().map(Limit::horizon).min();
    let nanos = shortest.unwrap_or_default().as_nanos().next_multiple_of(tick.as_nanos().max(1));
    u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
}

/// Returns by how much a store's horizon may be longer: it may round the time of each permit of a queue
/// up to a tick.
fn slack(policy: &Policy, tick: Duration) -> Duration {
    let depth = |limit: &Limit| match limit.algorithm() {
        Algorithm::LeakyQueue { depth } => u32::try_from(depth).unwrap_or(u32::MAX),
        _ => 0,
    };
    tick * policy.limits().iter().map(depth).max().unwrap_or_default()
}

/// Returns how many permits become free in a time, rounded up.
fn permits_in(time: Duration, policy: &Policy) -> u64 {
    let permits = policy.limits().iter().map(|limit| {
        let quota = limit.quota();
        (time.as_nanos() * u128::from(quota.permits())).div_ceil(quota.window().as_nanos())
    });
    u64::try_from(permits.max().unwrap_or_default()).unwrap_or(u64::MAX)
}

/// Law 7: what is given back at once leaves a key as it was, also if it was reserved for later, and what is kept stays
/// taken.
pub fn a_refund_gives_back_what_was_taken(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        subject.switch(policy);
        let before = subject.peek(now, KEY);
        // Several limits may have drained by the moment that one of them allows.
        if policy.limits().len() == 1
            && let Some(receipt) = subject.reserve(now, KEY, cost, Duration::MAX).into_receipt()
        {
            prop_assert_eq!(subject.refund(now, receipt), cost.get());
            let after = subject.peek(now, KEY);
            // A debt may have been rounded up to a whole tick, at which a reservation is made.
            let is_debt = |limit: &Limit| limit.algorithm().is_continuous();
            let has_debts = policy.limits().iter().any(is_debt);
            let rounded = if has_debts { permits_in(subject.tick(), policy) } else { 0 };
            let fewer = before.remaining().checked_sub(after.remaining());
            let later = after.reset_after().checked_sub(before.reset_after());
            prop_assert!(fewer.is_some_and(|fewer| fewer <= rounded), "{before:?}, {after:?}");
            prop_assert!(
                later.is_some_and(|later| later <= subject.tick()),
                "{before:?}, {after:?}"
            );
        }
        let before = subject.peek(now, KEY);
        let Some(receipt) = subject.reserve(now, KEY, cost, Duration::ZERO).into_receipt() else {
            prop_assert_eq!(subject.peek(now, KEY), before, "a refusal changed something");
            continue;
        };
        let kept = [0, 1, cost.get()].get(index % 3).copied().unwrap_or_default();
        let back = subject.refund(now, receipt.keep(kept));
        prop_assert_eq!(back, cost.get() - kept);
        let after = subject.peek(now, KEY);
        if kept == 0 {
            prop_assert_eq!(after, before);
        } else if policy.limits().len() == 1 {
            prop_assert_eq!(after.remaining(), before.remaining() - kept);
        }
    }
    Ok(())
}

/// Law 7, and law 1 with refunds: what was admitted and was not returned stays within the bound,
/// whenever it is given back, in parts or as a whole.
///
/// Several limits reserve nothing for later here: a limit by GCRA may have drained by the moment that
/// another limit allows, and then gives back what is reserved for that moment.
pub fn refunds_never_lift_above_the_bound(subject: &mut dyn Subject, scenario: &Scenario) -> Law {
    let mut admitted = Admitted::by_ticks_of(subject.tick());
    let mut receipts: Vec<(usize, Receipt)> = Vec::new();
    let is_single = scenario.policy.limits().len() == 1;
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        admitted.set_clock(now);
        if index % 3 == 2 && !receipts.is_empty() {
            let (addition, receipt) = receipts.swap_remove(index / 3 % receipts.len());
            let kept = if index % 2 == 0 { receipt.permits() / 3 } else { 0 };
            let receipt = receipt.keep(kept);
            let permits = receipt.permits();
            let back = subject.refund(now, receipt);
            prop_assert!(back <= permits);
            // Of several limits, some get back less than the one whose permits the refund returns.
            let given_up = if is_single || back == 0 { back } else { permits };
            admitted.give_back(addition, given_up);
            let usage = subject.peek(now, KEY);
            prop_assert!(usage.remaining() <= usage.burst());
        }
        let within = if index % 4 == 1 && is_single { Duration::MAX } else { Duration::ZERO };
        subject.switch(policy);
        let reservation = subject.reserve(now, KEY, cost, within);
        let delay = reservation.delay().unwrap_or_default();
        if let Some(receipt) = reservation.into_receipt() {
            receipts.push((admitted.additions(), receipt));
            admitted.add_later(policy, cost, delay);
        }
    }
    stays_within(&admitted)
}

/// Law 7, however the clock steps, whatever is reset and whichever quota charges in between: a
/// refund gives back no more permits than its receipt has, and no more than it returns.
pub fn a_refund_gives_back_no_more_than_was_taken(
    subject: &mut dyn Subject,
    scenario: &Scenario,
) -> Law {
    let mut receipts: Vec<(Policy, Receipt)> = Vec::new();
    let mut latest = Timestamp::ZERO;
    for (index, Request { now, policy, cost }) in scenario.requests().enumerate() {
        latest = latest.max(now);
        subject.switch(policy);
        match index % 8 {
            2 | 4 | 7 if !receipts.is_empty() => {
                let (policy, receipt) = receipts.swap_remove(index / 3 % receipts.len());
                // By the quota that has charged, whichever handle it is passed to.
                subject.switch(&policy);
                let (before, permits) = (subject.peek(now, KEY), receipt.permits());
                let back = subject.refund(now, receipt);
                prop_assert!(back <= permits);
                let after = subject.peek(now, KEY);
                let single = policy.limits().len() == 1;
                let most = if single { back } else { permits };
                // Before a step back of the clock is made up for, what is charged for later takes
                // the present with it, and brings it back.
                let is_present = now == latest;
                let bound = before.remaining().saturating_add(most);
                prop_assert!(!is_present || after.remaining() <= bound);
                let same_limit = after.limit_index() == before.limit_index();
                prop_assert!(!same_limit || after.reset_after() <= before.reset_after());
            }
            5 if index % 3 == 0 => subject.reset(now, KEY),
            // Nothing for later: what waits behind that is returned with it.
            _ => {
                let reservation = match index % 3 {
                    0 => subject.reserve(now, KEY, cost, Duration::ZERO),
                    1 => subject.take_up_to(now, KEY, cost),
                    _ => subject.charge(now, KEY, cost),
                };
                receipts
                    .extend(reservation.into_receipt().map(|receipt| (policy.clone(), receipt)));
            }
        }
    }
    Ok(())
}
