//! Lists of demands: all are charged, or none.

mod stores;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use allocation_counter::measure;
use futures::executor::block_on;
use limiter_core::{
    Algorithm, Cost, Demand, ErrorKind, JointDecision, Limiter, ManualClock, MemoryLimiter, OnFull,
    Policy, Store, SystemClock, decide,
};
use limiter_test::{
    laws::lists::lists_are_charged_all_or_none,
    lists::{Lists, lists},
    schedule::Tick,
    subject::Local,
};

use crate::{Memory, algorithms, full, laws::run, slots};

fn policy(name: &str, text: &str) -> Policy {
    Policy::parse(name, text).unwrap()
}

fn memory(text: &str) -> (Memory, ManualClock) {
    let (limiter, clock) = crate::limiter_of(policy("test", text), |builder| builder);
    clock.advance(Duration::from_secs(86_400));
    (limiter, clock)
}

/// Decides at once.
fn now(demands: &[Demand<'_>]) -> JointDecision {
    decide(demands).take_ready().unwrap().unwrap()
}

fn one<'a>(limiter: &'a dyn Limiter, key: &'a str) -> Demand<'a> {
    Demand::new(limiter, key, Cost::ONE)
}

#[test]
fn laws_of_lists_over_siblings() {
    laws_hold(|first, _, policy| first.sibling(policy));
}

#[test]
fn laws_of_lists_over_limiters_that_were_built_apart() {
    laws_hold(|_, local, policy| local.limiter(4_096, policy));
}

/// `next` makes all limiters but the first.
fn laws_hold(next: fn(&Memory, &Local, &Policy) -> Memory) {
    run(&lists(Tick::Nano, 10), |scenario: Lists| {
        let local = Local::default();
        let mut first: Option<Memory> = None;
        let make = |policy: &Policy| -> Arc<dyn Limiter> {
            Arc::new(match &first {
                Some(first) => next(first, &local, policy),
                None => first.insert(local.limiter(4_096, policy)).clone(),
            })
        };
        lists_are_charged_all_or_none(&local, make, &scenario)
    });
}

/// A list locks one line of its states, or both where a state is in the second one.
#[test]
fn lists_find_what_checks_have_charged() {
    let (limiter, _) =
        crate::limiter_of(policy("test", "2/d by fixed-window"), |builder| builder.capacity(1_000));
    let other = limiter.sibling(&policy("other", "2000/d"));
    // So many that some find a slot in their second line alone, and a few find none.
    let keys: Vec<_> = (0..1_800_u64).filter(|key| limiter.check(*key).is_admitted()).collect();
    for key in keys {
        let demands =
            [Demand::new(&limiter, key, Cost::ONE), Demand::new(&other, "all", Cost::ONE)];
        assert!(now(&demands).is_admitted(), "{key}");
    }
}

/// Both had been read before one was charged.
#[test]
fn of_two_demands_for_one_state_the_second_sees_the_first() {
    let (limiter, _) = memory("3/h");
    for text in ["3/h", "6/h"] {
        let other = limiter.with_policy(&policy("other", text)).unwrap();
        let both = || {
            let demands = [limiter.demand("key", Cost::of(2)), other.demand("key", Cost::of(1))];
            MemoryLimiter::decide(&demands)
        };
        assert!(both().is_admitted());
        let refused = both();
        assert!(!refused.is_admitted());
        // A refusal charges neither.
        assert_eq!(refused.into_receipts().count(), 0);
        assert!(limiter.peek("key").remaining() < 2);
        limiter.reset("key");
    }
    let (log, _) = memory("3/h by sliding-log");
    let all = [(); 2].map(|()| log.demand("key", Cost::of(u64::MAX)));
    assert!(!MemoryLimiter::decide(&all).is_admitted());
    let demands = [log.demand("key", Cost::of(2)), log.demand("key", Cost::of(2))];
    let refused = MemoryLimiter::decide(&demands);
    let refusing: Vec<_> = refused.refusing().map(|(index, _)| index).collect();
    assert_eq!((refusing, log.peek("key").remaining()), (vec![1], 3));
}

#[test]
fn limiters_with_other_clocks_are_judged_by_their_own() {
    for text in ["1/h", "1/h by fixed-window"] {
        let [(early, _), (late, clock)] = [memory(text), memory(text)];
        assert!(early.check("key").is_admitted() && late.check("other").is_admitted());
        clock.advance(Duration::from_secs(3_600));
        let other = early.demand("other", Cost::ONE);
        assert!(MemoryLimiter::decide(&[other, late.demand("other", Cost::ONE)]).is_admitted());
        let used_up = early.demand("key", Cost::ONE);
        let decided = MemoryLimiter::decide(&[late.demand("key", Cost::ONE), used_up]);
        assert_eq!(decided.retry_after(), Some(Duration::from_secs(3_600)));
    }
}

#[test]
fn an_empty_list_is_admitted() {
    let joint = now(&[]);
    assert!(joint.is_admitted() && joint.is_empty());
    assert_eq!(joint.retry_after(), Some(Duration::ZERO));
}

#[test]
fn more_than_16_demands_are_an_error_that_quotes_the_number() {
    let (limiter, _) = memory("100/h");
    let demands: Vec<_> = (0..17).map(|key| Demand::new(&limiter, key, Cost::ONE)).collect();
    assert!(now(&demands[..16]).is_admitted());
    let error = decide(&demands).take_ready().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert_eq!(error.to_string(), "invalid list of 17 demands: use at most 16");
    assert_eq!(limiter.peek(16).remaining(), 100);
}

#[test]
fn demands_under_two_policies_for_one_key_are_charged_in_turn() {
    let (free, _) = memory("10/h");
    let premium = free.with_policy(&policy("premium", "100/h")).unwrap();
    let both = [Demand::new(&free, "a", Cost::of(5)), Demand::new(&premium, "a", Cost::of(50))];
    assert!(now(&both).is_admitted());
    // A half each.
    assert_eq!(free.peek("a").remaining(), 0);
    let (strict, _) = memory("10/h");
    let longer = strict.with_policy(&policy("longer", "10/h burst 20")).unwrap();
    assert!(now(&[one(&strict, "a"), one(&longer, "a")]).is_admitted());
    // Another span is another state.
    assert_eq!((strict.peek("a").remaining(), longer.peek("a").remaining()), (9, 19));
}

#[test]
fn a_refusal_names_what_refuses_and_what_would_have_fitted() {
    let (hourly, _) = memory("2/h");
    let daily = hourly.sibling(&policy("daily", "1/24h"));
    let free = hourly.sibling(&policy("free", "5/h by fixed-window"));
    assert!(now(&[one(&hourly, "a"), Demand::new(&hourly, "b", Cost::of(2))]).is_admitted());
    assert!(daily.check("a").is_admitted());
    let joint = now(&[one(&free, "a"), one(&daily, "a"), one(&hourly, "b"), one(&hourly, "a")]);
    assert!(!joint.is_admitted());
    let refusing: Vec<_> = joint.refusing().map(|(index, _)| index).collect();
    assert_eq!(refusing, [1, 2]);
    assert_eq!(joint.retry_after(), Some(Duration::from_secs(86_400)));
    let fits = joint.decision(0).unwrap();
    assert!(fits.is_admitted() && fits.remaining() == 5, "its usage has no charge");
    assert_eq!(joint.into_receipts().count(), 0);
    let never = now(&[one(&hourly, "b"), Demand::new(&free, "a", Cost::of(6))]);
    assert_eq!(never.retry_after(), None);
}

#[test]
fn an_absent_key_that_is_only_asked_fits_in_a_full_table() {
    for algorithm in algorithms() {
        let (limiter, _) = full("2/h", algorithm, |builder| builder);
        let ask = |cost| Demand::only_ask(&limiter, "absent", Cost::of(cost));
        assert!(now(&[one(&limiter, "absent")]).refusing().count() == 1, "{algorithm}");
        assert_eq!(limiter.times_full(), 1, "{algorithm}");
        assert!(now(&[ask(1)]).is_admitted(), "{algorithm}");
        assert_eq!(now(&[ask(3)]).retry_after(), None, "{algorithm}");
        assert_eq!(limiter.times_full(), 1, "nothing was refused for want of a slot");
    }
}

#[test]
fn a_list_in_a_full_table_takes_no_slot_and_is_counted_once() {
    for algorithm in algorithms() {
        let (limiter, clock) = full("2/h", algorithm, |builder| builder);
        let other = limiter.sibling(&policy("other", "3/h"));
        let list = [one(&other, "a"), one(&limiter, "absent"), Demand::new(&limiter, 0, Cost::ONE)];
        assert!(!now(&list).is_admitted(), "{algorithm}");
        assert_eq!((limiter.times_full(), other.times_full()), (1, 0), "{algorithm}");
        assert_eq!((other.peek("a").remaining(), limiter.peek(0).remaining()), (3, 1));
        // When all slots are free, a refused list takes none.
        clock.advance(Duration::from_secs(3 * 3_600));
        let never = Demand::new(&other, "a", Cost::of(4));
        for key in 100..200_u64 {
            assert!(!now(&[Demand::new(&limiter, key, Cost::ONE), never.clone()]).is_admitted());
        }
        for key in 0..slots(algorithm) {
            assert!(limiter.check(1_000 + key).is_admitted(), "{algorithm}: newcomer {key}");
        }
        assert_eq!(limiter.times_full(), 1, "{algorithm}");
    }
}

#[test]
fn a_full_table_may_admit_lists_uncounted() {
    let (limiter, _) = full("2/h", Algorithm::Gcra, |builder| builder.on_full(OnFull::Admit));
    let joint = now(&[one(&limiter, "absent")]);
    assert!(joint.is_admitted() && joint.into_receipts().count() == 0);
    assert_eq!(limiter.times_full(), 1);
}

#[test]
fn a_list_does_not_overtake_waiters() {
    let (limiter, clock) = memory("2/s burst 2");
    let other = limiter.sibling(&policy("other", "5/h"));
    assert!(limiter.check_n("a", Cost::of(2)).is_admitted());
    let mut waiter = limiter.acquire("a", Cost::of(2), None);
    assert!(block_on(async { futures::poll!(&mut waiter) }).is_pending());
    clock.advance(Duration::from_millis(500));
    let joint = now(&[one(&other, "a"), one(&limiter, "a")]);
    assert!(!joint.is_admitted(), "a permit is there, but a waiter comes first");
    assert_eq!(other.peek("a").remaining(), 5);
    clock.advance(Duration::from_millis(500));
    assert!(block_on(waiter).is_admitted());
}

#[test]
fn a_list_of_four_demands_allocates_its_receipts_alone() {
    let (limiter, _) = memory("100/h");
    let other = limiter.sibling(&policy("other", "100/h by fixed-window"));
    let list = [one(&limiter, "a"), one(&other, "a"), one(&limiter, "b"), one(&limiter, "c")];
    assert!(now(&list).is_admitted());
    let allocations = measure(|| assert!(now(&list).is_admitted()));
    assert_eq!(allocations.count_total, 1, "{allocations:?}");
    let list = list.map(Demand::without_receipt);
    for demands in [&list[..], &list[2..]] {
        let allocations = measure(|| assert!(now(demands).is_admitted()));
        assert_eq!(allocations.count_total, 0, "{allocations:?}");
    }
}

#[test]
fn a_receipt_of_four_limits_allocates_nothing() {
    let limits = ["100/h", "200/h", "300/h by fixed-window", "400/h by sliding-counter"];
    let named = ["a", "b", "c", "d"].iter().zip(limits).map(|(name, text)| policy(name, text));
    let limiter = MemoryLimiter::new(Policy::all_of("four", named).unwrap());
    let reserve = || limiter.reserve("alice", Cost::ONE, Duration::ZERO).into_receipt();
    assert!(reserve().is_some());
    let allocations = measure(|| assert!(reserve().is_some()));
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

/// Threads with random lists over few keys take what the limits allow, and all of it.
#[test]
fn threads_with_lists_never_exceed_a_limit() {
    const LIMIT: u64 = 200;
    for algorithm in algorithms() {
        let (first, _) = memory(&format!("{LIMIT}/h by {algorithm}"));
        let second = first.sibling(&policy("second", &format!("{LIMIT}/h by fixed-window")));
        let limiters = [first, second];
        let charged: [[AtomicU64; 2]; 2] = Default::default();
        thread::scope(|scope| {
            for seed in 1..=3_u64 {
                let (limiters, charged) = (&limiters, &charged);
                scope.spawn(move || {
                    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    for _ in 0..3_000 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let bits = |shift: u32, mask: u64| (random >> shift) & mask;
                        let places: Vec<(usize, usize, u64)> = (0..1 + bits(40, 3))
                            .map(|at| {
                                let at = u32::try_from(at).unwrap() * 4;
                                let index = |bit| usize::try_from(bits(at + bit, 1)).unwrap();
                                (index(0), index(1), 1 + bits(at + 2, 3))
                            })
                            .collect();
                        let demands: Vec<_> = places
                            .iter()
                            .map(|(limiter, key, cost)| {
                                Demand::new(&limiters[*limiter], *key as u64, Cost::of(*cost))
                            })
                            .collect();
                        if now(&demands).is_admitted() {
                            for (limiter, key, cost) in places {
                                charged[limiter][key].fetch_add(cost, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        for (limiter, charged) in limiters.iter().zip(&charged) {
            for (key, charged) in charged.iter().enumerate() {
                let charged = charged.load(Ordering::Relaxed);
                let left = limiter.peek(key as u64).remaining();
                assert!(charged <= LIMIT, "{charged} of {LIMIT} by {algorithm}");
                assert_eq!(left, LIMIT - charged, "what refusals charged came back: {algorithm}");
            }
        }
    }
}

/// Two threads are refused again and again, by a key of their own that is used up, beside a user at half the rate or less.
#[test]
fn failing_lists_take_nothing_from_a_user_at_half_the_rate() {
    let shared = MemoryLimiter::new(policy("shared", "1000/s burst 10"));
    let own = shared.sibling(&policy("own", "1/h"));
    assert!(own.check("exhausted").is_admitted());
    let done = AtomicBool::new(false);
    let (mut admitted, mut asked) = (0, 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(!now(&[one(&shared, "all"), one(&own, "exhausted")]).is_admitted());
                }
            });
        }
        // A thread that is late does not catch up, which would be a burst.
        for _ in 0..500 {
            thread::sleep(Duration::from_millis(2));
            asked += 1;
            admitted += u32::from(shared.check("all").is_admitted());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(admitted * 100 >= asked * 95, "{admitted} of {asked}");
}

/// With the default clock set by hand, a limiter had a store of its own, and lists were decided in turn.
#[test]
fn limiters_with_the_system_clock_share_a_store() {
    let policy = policy("test", "1/h");
    let builder = || MemoryLimiter::builder(policy.clone());
    let default = builder().build().unwrap();
    let given = builder().clock(SystemClock::new()).build().unwrap();
    assert!(Store::id(&default).shares_store_with(Store::id(&given)));
    let manual = builder().clock(ManualClock::new()).build().unwrap();
    assert!(!Store::id(&default).shares_store_with(Store::id(&manual)));
    assert!(now(&[one(&default, "a"), one(&given, "a")]).is_admitted());
}
