//! Keys that find no slot, because debtors have taken all of theirs.

use std::time::Duration;

use limiter_core::{
    Algorithm, Cost, ManualClock, MemoryLimiter, OnFull, Policy, Source, Timestamp,
};

use crate::{algorithms, full};

const HOUR: Duration = Duration::from_secs(3_600);
const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_key_without_a_slot_is_refused_until_the_first_of_its_slots_is_free() {
    for algorithm in algorithms() {
        let (limiter, clock) = full("1/h", algorithm, |builder| builder);
        let refusal = limiter.check("newcomer");
        assert_eq!((refusal.is_admitted(), refusal.source()), (false, Source::FullTable));
        assert_eq!((refusal.burst(), refusal.remaining()), (1, 0), "{algorithm:?}");
        let peek = limiter.peek("newcomer");
        assert_eq!((peek.remaining(), peek.reset_after()), (0, refusal.reset_after()));
        assert!(!limiter.reserve("newcomer", Cost::ONE, 48 * HOUR).is_admitted());
        assert_eq!(limiter.check_n("newcomer", Cost::of(2)).retry_after(), None);
        let wait = limiter.check("newcomer").retry_after().unwrap();
        clock.advance(wait - NANO);
        assert_eq!(limiter.check("newcomer").retry_after(), Some(NANO), "{algorithm:?}");
        clock.advance(NANO);
        assert!(limiter.check("newcomer").is_admitted(), "{algorithm:?}");
        assert_eq!(limiter.times_full(), 5, "{algorithm:?}");
    }
}

#[test]
fn a_key_without_a_slot_is_charged_nothing() {
    for algorithm in algorithms() {
        let (limiter, _) = full("3/h", algorithm, |builder| builder);
        let wait = limiter.check("newcomer").retry_after();
        for refused in
            [limiter.take_up_to("newcomer", Cost::of(9)), limiter.charge("newcomer", Cost::of(9))]
        {
            let decision = refused.decision();
            assert_eq!((decision.is_admitted(), decision.source()), (false, Source::FullTable));
            assert_eq!((decision.retry_after(), refused.permits()), (wait, 0), "{algorithm:?}");
            assert!(refused.into_receipt().is_none());
        }

        let (limiter, _) = full("3/h", algorithm, |builder| builder.on_full(OnFull::Admit));
        let taken = limiter.take_up_to("newcomer", Cost::of(9));
        assert_eq!((taken.permits(), taken.is_admitted()), (3, true), "{algorithm:?}");
        let charged = limiter.charge("newcomer", Cost::of(9));
        assert_eq!((charged.permits(), charged.is_admitted()), (9, true), "{algorithm:?}");
        for uncounted in [taken, charged] {
            assert_eq!(uncounted.decision().source(), Source::FullTable);
            assert!(uncounted.into_receipt().is_none());
        }
        // A key with a slot is charged all the same.
        let charged = limiter.charge(0, Cost::of(4));
        assert_eq!((charged.permits(), charged.decision().remaining()), (4, 0), "{algorithm:?}");
    }
}

#[test]
fn a_key_without_a_slot_may_be_admitted_uncounted() {
    for algorithm in algorithms() {
        let (limiter, _) = full("1/h", algorithm, |builder| builder.on_full(OnFull::Admit));
        for _ in 0..3 {
            let admission = limiter.check("newcomer");
            assert_eq!((admission.is_admitted(), admission.source()), (true, Source::FullTable));
            assert_eq!(limiter.peek("newcomer").remaining(), 1);
        }
        let reservation = limiter.reserve("newcomer", Cost::ONE, HOUR);
        assert_eq!((reservation.is_admitted(), reservation.delay()), (true, Some(Duration::ZERO)));
        assert!(reservation.into_receipt().is_none(), "{algorithm:?}");
        // A cost that never fits is refused all the same.
        let refusal = limiter.check_n("newcomer", Cost::of(2));
        assert_eq!((refusal.is_admitted(), refusal.retry_after()), (false, None), "{algorithm:?}");
        let acquired = limiter.acquire_blocking("newcomer", Cost::ONE, None);
        assert!(acquired.is_admitted() && acquired.into_receipt().is_none());
        // Those with a slot are limited.
        assert!(!limiter.check(1).is_admitted(), "{algorithm:?}");
    }
}

/// Slots of other spans were judged by the policy of the key that found none, so they were never freed: with a daily quota,
/// fresh keys were refused for a year after a step back by a year.
#[test]
fn a_step_back_frees_the_slots_of_all_spans() {
    for (day, second) in [("1/d", "1/s"), ("1/d by fixed-window", "1/s by fixed-window")] {
        let parse = |text| Policy::parse("test", text).unwrap();
        let clock = ManualClock::new();
        let builder = MemoryLimiter::builder(parse(day)).capacity(1).clock(clock.clone());
        let (daily, mut key) = (builder.build().unwrap(), 0_u64);
        let other = daily.with_policy(&parse(second)).unwrap();
        clock.set(Timestamp::from_nanos(366 * 86_400_000_000_000));
        while daily.times_full() == 0 {
            let _ = daily.check(key);
            key += 1;
            clock.advance(NANO);
        }
        clock.set(Timestamp::from_nanos(86_400_000_000_000));
        let wait = other.check("newcomer").retry_after().unwrap();
        assert!(wait <= 49 * HOUR, "{day}: {wait:?}");
        clock.advance(wait);
        assert!(other.check("newcomer").is_admitted(), "{day}");
    }
}

/// A key that finds a slot for one of its two limits alone was read as fresh, refused, and read again, for ever.
#[test]
fn a_key_needs_a_slot_for_each_limit() {
    let limits = [("second", "10/s"), ("hour", "10/h")];
    let limits = limits.map(|(name, quota)| Policy::parse(name, quota).unwrap());
    let clock = ManualClock::new();
    let builder = MemoryLimiter::builder(Policy::all_of("both", limits).unwrap()).capacity(1);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    // Of eight slots, seven are taken by the hour of as many keys.
    for key in 0..7 {
        assert!(limiter.check(key).is_admitted(), "{key}");
        clock.advance(Duration::from_secs(1));
    }
    let both = Cost::of(2);
    for _ in 0..2 {
        let taken = limiter.take_up_to("newcomer", both);
        assert_eq!(taken.decision().source(), Source::FullTable);
        assert!(!taken.is_admitted() && !limiter.check("newcomer").is_admitted());
        assert!(limiter.charge("newcomer", both).into_receipt().is_none());
        assert!(!limiter.reserve("newcomer", both, HOUR).is_admitted());
    }
}

/// Of 100,000 fresh keys, 29 to 44 found no slot by GCRA, and 80 by other algorithms.
#[test]
fn hardly_a_key_finds_no_slot_before_the_table_is_full() {
    for algorithm in [Algorithm::Gcra, Algorithm::FixedWindow] {
        let limiter = MemoryLimiter::new(crate::policy(&format!("1/h by {algorithm}")));
        let refused = (0..100_000_u64).filter(|key| !limiter.check(*key).is_admitted()).count();
        assert!(refused <= 3, "{refused} fresh keys were refused by {algorithm}");
    }
}

/// Threads that bring the same new keys to a small table: a key with two slots would be admitted twice.
#[test]
fn no_key_gets_two_slots() {
    for algorithm in [Algorithm::Gcra, Algorithm::FixedWindow, Algorithm::SlidingLog] {
        for round in 0..50_u64 {
            let limiter =
                MemoryLimiter::builder(crate::policy(&format!("1/h by {algorithm}"))).capacity(64);
            let limiter = limiter.build().unwrap();
            let admit =
                || (0..200_u64).filter(|key| limiter.check(1_000 * round + key).is_admitted());
            let admitted: Vec<u64> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..3).map(|_| scope.spawn(|| admit().collect::<Vec<_>>())).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            let mut distinct = admitted.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), admitted.len(), "admitted twice by {algorithm}");
        }
    }
}

#[test]
fn a_list_of_more_new_keys_than_slots_is_refused() {
    let limiter = MemoryLimiter::builder(Policy::parse("api", "1/h").unwrap());
    let limiter = limiter.clock(ManualClock::new()).capacity(1).build().unwrap();
    let demands: Vec<_> = (0..16_u64).map(|key| limiter.demand(key, Cost::ONE)).collect();
    assert!(!MemoryLimiter::decide(&demands).is_admitted());
    // None of them was charged.
    assert!(limiter.check(0_u64).is_admitted());
}
