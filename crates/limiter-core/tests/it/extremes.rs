//! The ends of every range: no panic and no overflow, whatever is asked, whenever.

use std::{slice, time::Duration};

use limiter_core::{
    Algorithm, Cost, ManualClock, MemoryLimiter, Policy, Quota, Slots, Timestamp,
    algorithms::{
        AnyTransition, Counts, Entries, Gcra, KeyStates, Ledger, State, Tat, WindowKind, Windows,
        operate,
    },
};

fn algorithms() -> Vec<Algorithm> {
    let slots = [Slots::strict(1), Slots::strict(1_000), Slots::loose(2), Slots::loose(1_000)];
    let mut algorithms: Vec<_> = slots.iter().map(|slots| Algorithm::SubWindows(*slots)).collect();
    algorithms.extend(slots.iter().map(|slots| Algorithm::SubWindows(slots.paced())));
    algorithms.extend([
        Algorithm::LeakyQueue { depth: 0 },
        Algorithm::LeakyQueue { depth: u64::MAX },
        Algorithm::LeakyQueue { depth: 1_000 },
    ]);
    algorithms.extend(Algorithm::one_of_each());
    algorithms
}

/// Every algorithm with the shortest and the longest window, with one permit and with as many as it
/// serves, with the shortest and the longest horizon.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for algorithm in algorithms() {
        for window in [Duration::from_millis(1), Quota::MAX_WINDOW] {
            let most = u64::try_from(window.as_millis()).unwrap() * Quota::MAX_RATE / 1_000;
            for permits in [1, 1 << 10, 1 << 20, 1 << 40, most] {
                let Ok(quota) = Quota::new(permits, window) else { continue };
                let policy = Policy::new("test", algorithm, quota);
                policies.extend(Policy::new("test", algorithm, quota.with_burst(1)));
                for horizon in [Duration::ZERO, Quota::MAX_RECOVERY] {
                    policies.extend(
                        policy
                            .as_ref()
                            .ok()
                            .and_then(|policy| policy.clone().with_horizon(horizon).ok()),
                    );
                }
                policies.extend(policy);
            }
        }
    }
    assert!(policies.len() > 100, "only {} policies are valid", policies.len());
    policies
}

const TIMES: [u64; 10] = [
    u64::MAX,
    0,
    1,
    u64::MAX - 1,
    1 << 60,
    3 << 60,
    u64::MAX / 2,
    1_790_000_000_000_000_000,
    u64::MAX,
    999_999_999,
];

fn costs(policy: &Policy) -> [Cost; 4] {
    let burst = policy.limits().first().unwrap().quota().burst();
    [1, burst, burst.saturating_add(1), u64::MAX].map(Cost::of)
}

#[test]
fn limiters_serve_the_ends_of_every_range() {
    for policy in policies() {
        for start in [0, 1, u64::MAX] {
            let clock = ManualClock::new();
            clock.set(Timestamp::from_nanos(start));
            let limiter = MemoryLimiter::builder(policy.clone()).capacity(16).clock(clock.clone());
            let limiter = limiter.build().unwrap();
            let mut receipts = Vec::new();
            for now in TIMES {
                clock.set(Timestamp::from_nanos(now));
                for cost in costs(&policy) {
                    let decision = limiter.check_n("key", cost);
                    assert!(decision.remaining() <= decision.burst(), "{policy:?} at {now}");
                    if !decision.is_admitted() {
                        assert_ne!(decision.retry_after(), Some(Duration::ZERO), "{policy:?}");
                    }
                    let within = Duration::from_nanos(u64::MAX);
                    receipts.extend(limiter.reserve("key", cost, within).into_receipt());
                    receipts.extend(limiter.reserve(now, cost, Duration::MAX).into_receipt());
                }
                if let Some(receipt) = receipts.pop() {
                    limiter.refund(receipt);
                }
                let usage = limiter.peek("key");
                assert!(usage.remaining() <= usage.burst(), "{policy:?} at {now}");
            }
            limiter.reset("key");
            receipts.into_iter().for_each(|receipt| _ = limiter.refund(receipt));
        }
    }
}

/// Every pair of policies of one span takes turns on one state.
#[test]
fn policies_take_turns_at_the_ends_of_every_range() {
    let policies = policies();
    for old in &policies {
        for new in policies.iter().filter(|new| new.identities() == old.identities()) {
            let mut state = Default::default();
            for (turn, now) in TIMES.map(Timestamp::from_nanos).into_iter().enumerate() {
                let policy = if turn % 2 == 0 { old } else { new };
                for cost in costs(policy) {
                    let state = slice::from_mut(&mut state);
                    let (usage, decision, back) =
                        operate(policy.transitions(), state, now, |states| {
                            let usage = states.usage();
                            let decision = states.take(cost, Duration::MAX);
                            let charges = states.charges().filter(|_| cost.get() % 2 == 0);
                            let back = charges.map(|charges| states.refund(&charges, u64::MAX));
                            (usage, decision, back)
                        });
                    assert!(usage.remaining() <= usage.burst(), "{old:?}, then {new:?}");
                    let never = cost.get() > usage.burst();
                    assert_eq!(decision.retry_after().is_none(), never, "{old:?}, then {new:?}");
                    assert!(back.is_none_or(|back| back <= cost.get()), "{old:?}, then {new:?}");
                }
            }
        }
    }
}

/// Those of an admission before were once returned.
#[test]
fn the_charges_are_those_of_the_last_operation() {
    let policy = Policy::gcra("test", Quota::per_hour(2));
    let mut state = [State::default()];
    operate(policy.transitions(), &mut state, Timestamp::ZERO, |states| {
        assert!(states.take(Cost::of(2), Duration::ZERO).is_admitted());
        assert_eq!(states.charges().map(|it| it.permits()), Some(2));
        assert!(!states.take(Cost::ONE, Duration::ZERO).is_admitted());
        assert_eq!(states.charges(), None);
    });
}

#[test]
#[should_panic(expected = "0 states for 1 limits: use one for each limit")]
fn a_limit_without_a_state_is_not_left_out() {
    let policy = Policy::gcra("test", Quota::per_hour(2));
    operate(policy.transitions(), &mut [], Timestamp::ZERO, |states| states.usage());
}

/// `Gcra::new` overflowed with a horizon of `Duration::MAX`. A debt of more than half of what its ticks can
/// compare would have counted as drained.
#[test]
fn the_longest_horizon_is_served() {
    let quota = Quota::new(2, Quota::MAX_WINDOW).unwrap();
    for start in [0, 1 << 62, u64::MAX / 2] {
        let gcra = Gcra::new(&quota, Duration::MAX);
        // Of 366 days, within 36 years of 365.
        let reserved = reserve_windows(&AnyTransition::Gcra(gcra), start, 100);
        assert_eq!(reserved, 35, "from {start}");
    }
    for kind in [WindowKind::Fixed, WindowKind::Aligned] {
        let windows = AnyTransition::Windows(Windows::new(kind, &quota, Duration::MAX));
        assert_eq!(reserve_windows(&windows, 0, 100), 100);
    }
    let log = AnyTransition::Ledger(Ledger::sliding_log(&quota, Duration::MAX));
    for start in [0, 1 << 62, u64::MAX / 2] {
        assert_eq!(reserve_windows(&log, start, 9), 9);
    }
}

/// Reserves up to so many whole bursts, each one window after the other, and returns their number.
fn reserve_windows(rule: &AnyTransition, start: u64, most: u32) -> u32 {
    let (mut state, now) = (State::default(), Timestamp::from_nanos(start));
    let reserve = |state: &mut State, within| {
        let take =
            |states: &mut KeyStates<'_, '_>| (states.take(Cost::of(2), within), states.charges());
        operate(slice::from_ref(rule), slice::from_mut(state), now, take)
    };
    let mut reserved = 0;
    while reserved < most
        && let (_, Some(charges)) = reserve(&mut state, Duration::MAX)
    {
        assert_eq!(charges.at(), now.saturating_add(reserved * Quota::MAX_WINDOW));
        reserved += 1;
        let (refusal, _) = reserve(&mut state, Duration::ZERO);
        assert_eq!(refusal.retry_after(), Some(reserved * Quota::MAX_WINDOW));
    }
    let later = now.saturating_add(2 * reserved * Quota::MAX_WINDOW);
    rule.advance(&mut state, later);
    assert!(rule.fresh_after(&state, later).is_zero());
    reserved
}

/// The documentation of `entries_per_key` gives the size of an entry.
#[test]
fn states_have_their_sizes() {
    assert_eq!(size_of::<Tat>(), 16);
    assert_eq!(size_of::<Counts>(), 56);
    assert_eq!(size_of::<Entries>(), 48);
}

/// The end of a debt was the last moment, and therefore not after the present: no slot was kept.
#[test]
fn the_last_moments_of_a_clock_are_limited() {
    for algorithm in Algorithm::one_of_each() {
        for before in [0, 1, 1 << 58, 1 << 59, 1 << 60] {
            let policy = Policy::new("test", algorithm, Quota::per_hour(1)).unwrap();
            let clock = ManualClock::new();
            clock.set(Timestamp::from_nanos(u64::MAX - before));
            let limiter = MemoryLimiter::builder(policy).capacity(16).clock(clock).build().unwrap();
            // More keys than a line has slots: a key that is peeked at takes none.
            for key in 0..64_u64 {
                assert!(limiter.peek(key).used() == 0, "{algorithm}, {before} ns before");
            }
            for key in 0..8_u64 {
                assert!(limiter.check(key).is_admitted(), "{algorithm}, {before} ns before");
                assert!(!limiter.check(key).is_admitted(), "{algorithm}, {before} ns before");
            }
        }
    }
}
