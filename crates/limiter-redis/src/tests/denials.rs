//! Which refusals are remembered, for how long, and what they report.

use std::{hash::BuildHasher, time::Duration};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::{Cost, Decision, Policy, Quota, Source, Timestamp, Usage};

use super::store::{Store, unique};
use crate::{
    context::Settings,
    denials::{Denial, Denials},
};

const ALICE: Bytes = Bytes::from_static(b"alice");

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn cost(permits: u64) -> Cost {
    Cost::new(permits).unwrap()
}

fn policy(permits: u64) -> Policy {
    Policy::gcra("test", Quota::per_second(permits))
}

/// A refusal with some permits left of 10, and fully recovered in 900 ms.
fn refused(retry_after: Duration) -> Decision {
    Decision::refused(Usage::new(10, 1, ms(900)), Some(retry_after))
}

/// Denials as one caller sees them.
struct Cache {
    denials: Denials,
    start: Timestamp,
}

impl Cache {
    fn new(capacity: usize) -> Self {
        let start = Timestamp::from_nanos(7_000);
        Self { denials: Denials::new(capacity, SeedableRandomState::default()), start }
    }

    /// Remembers a refusal that was sent and received at the start.
    fn remember(&self, key: &[u8], permits: u64, retry_after: Duration) {
        self.remember_at(Duration::ZERO, key, permits, retry_after);
    }

    fn remember_at(&self, at: Duration, key: &[u8], permits: u64, retry_after: Duration) {
        let now = self.start.saturating_add(at);
        let denial = Denial {
            cost: cost(permits),
            decision: refused(retry_after),
            sent: now,
            received: now,
        };
        let (key, ticket) = (Bytes::copy_from_slice(key), self.denials.ticket(key));
        self.denials.insert(Denials::MAX_AGE, ticket, (&key, &policy(1)), denial);
    }

    /// A decision for `alice` that was sent and received at the start.
    fn denial(&self, permits: u64, decision: Decision) -> Denial {
        Denial { cost: cost(permits), decision, sent: self.start, received: self.start }
    }

    fn insert(&self, denial: Denial) {
        let ticket = self.denials.ticket(b"alice");
        self.denials.insert(Denials::MAX_AGE, ticket, (&ALICE, &policy(1)), denial);
    }

    fn find(&self, key: &[u8], permits: u64, at: Duration) -> Option<Decision> {
        let (policy, now) = (policy(1), self.start.saturating_add(at));
        self.denials.find(key, &policy, cost(permits), now, |usage| Some(usage.reset_after()))
    }

    fn retry_after(&self, key: &[u8], permits: u64, at: Duration) -> Option<Duration> {
        self.find(key, permits, at).and_then(|decision| decision.retry_after())
    }
}

#[test]
fn a_refusal_holds_until_its_wait_is_over() {
    let cache = Cache::new(100);
    cache.remember(b"alice", 2, ms(300));
    let remembered = |decision: Decision| Some(decision.with_source(Source::Cache));
    assert_eq!(cache.find(b"alice", 2, Duration::ZERO), remembered(refused(ms(300))));
    let later = Decision::refused(Usage::new(10, 1, ms(700)), Some(ms(100)));
    assert_eq!(cache.find(b"alice", 2, ms(200)), remembered(later));
    assert_eq!(cache.retry_after(b"alice", 2, ms(299)), Some(ms(1)));
    assert_eq!(cache.find(b"alice", 2, ms(300)), None);
    assert_eq!(cache.find(b"bob", 2, Duration::ZERO), None);
}

#[test]
fn the_limit_that_had_refused_is_named() {
    let cache = Cache::new(100);
    let usage = Usage::new(10, 1, ms(900)).with_limit_index(2);
    let decision = Decision::refused(usage, Some(ms(300)));
    cache.insert(cache.denial(1, decision));
    assert_eq!(cache.find(b"alice", 1, ms(100)).unwrap().limit_index(), 2);
}

#[test]
fn a_refusal_ends_as_early_as_it_may_and_reports_no_wait_that_is_too_short() {
    let cache = Cache::new(100);
    let received = cache.start.saturating_add(ms(7));
    cache.insert(Denial { received, ..cache.denial(1, refused(ms(100))) });
    // The store may have decided when it was sent.
    assert_eq!(cache.find(b"alice", 1, ms(100)), None);
    // Or just when it was received.
    assert_eq!(cache.retry_after(b"alice", 1, ms(99)), Some(ms(8)));
    assert_eq!(cache.retry_after(b"alice", 1, ms(7)), Some(ms(100)));
    assert_eq!(cache.retry_after(b"alice", 1, ms(5)), Some(ms(100)));
}

#[test]
fn waits_are_rounded_up_to_a_microsecond() {
    let cache = Cache::new(100);
    cache.remember(b"alice", 1, ms(100));
    let nanos = Duration::from_nanos;
    let decision = cache.find(b"alice", 1, nanos(1)).unwrap();
    assert_eq!((decision.retry_after(), decision.reset_after()), (Some(ms(100)), ms(900)));
    assert_eq!(
        cache.retry_after(b"alice", 1, nanos(1_000)),
        Some(ms(100) - Duration::from_micros(1))
    );
    assert_eq!(cache.retry_after(b"alice", 1, ms(100) - nanos(1)), Some(Duration::from_micros(1)));
}

#[test]
fn a_larger_cost_is_refused_for_longer_and_a_smaller_one_is_not() {
    let cache = Cache::new(100);
    cache.remember(b"alice", 5, ms(500));
    assert!(cache.find(b"alice", 4, Duration::ZERO).is_none());
    assert_eq!(cache.retry_after(b"alice", 6, Duration::ZERO), Some(ms(900)));
    cache.remember(b"alice", 3, ms(200));
    assert!(cache.find(b"alice", 2, Duration::ZERO).is_none());
    assert_eq!(cache.retry_after(b"alice", 4, Duration::ZERO), Some(ms(900)));
    assert_eq!(cache.retry_after(b"alice", 5, Duration::ZERO), Some(ms(500)), "its own");
    let (policy, now) = (policy(1), cache.start);
    let unknown = cache.denials.find(b"alice", &policy, cost(6), now, |_| None);
    assert_eq!(unknown, None, "the store has to be asked");
    assert_eq!(cache.find(b"alice", 4, ms(200)), None);
    assert_eq!(cache.retry_after(b"alice", 5, ms(200)), Some(ms(300)));
}

#[test]
fn a_charge_removes_what_has_become_too_short() {
    let cache = Cache::new(100);
    cache.remember(b"alice", 4, ms(300));
    cache.remember(b"bob", 4, ms(300));
    cache.insert(cache.denial(11, Decision::refused(Usage::new(10, 1, ms(900)), None)));
    cache.denials.charged(cache.denials.ticket(b"alice"), b"alice", cache.start);
    assert_eq!(cache.find(b"alice", 4, ms(100)), None, "the store has to be asked");
    assert!(cache.find(b"alice", 11, ms(100)).is_some(), "it never fits");
    assert!(cache.find(b"bob", 4, ms(100)).is_some());
}

#[test]
fn the_longer_of_two_waits_of_one_cost_holds() {
    for waits in [[100, 300], [300, 100]] {
        let cache = Cache::new(1);
        for wait in waits {
            cache.remember(b"alice", 1, ms(wait));
        }
        assert_eq!(cache.retry_after(b"alice", 1, Duration::ZERO), Some(ms(300)));
    }
}

#[test]
fn a_cost_that_can_never_fit_is_cached_for_a_second() {
    let cache = Cache::new(100);
    let usage = Usage::new(10, 1, ms(900));
    cache.insert(cache.denial(11, Decision::admitted(usage)));
    assert_eq!(cache.find(b"alice", 11, Duration::ZERO), None);
    cache.insert(cache.denial(11, Decision::refused(usage, None)));
    cache.remember(b"alice", 2, ms(300));
    for costs in [11, 12] {
        let never = cache.find(b"alice", costs, Duration::ZERO).unwrap();
        assert_eq!((never.is_admitted(), never.retry_after()), (false, None));
    }
    assert_eq!(cache.retry_after(b"alice", 10, Duration::ZERO), Some(ms(900)));
    assert!(cache.find(b"alice", 11, ms(999)).is_some());
    assert_eq!(cache.find(b"alice", 11, ms(1_000)), None);
}

#[test]
fn a_denial_holds_for_its_quota_alone_and_is_forgotten_for_all() {
    let cache = Cache::new(100);
    for quota in [1, 2] {
        let (ticket, denial) = (cache.denials.ticket(b"alice"), cache.denial(1, refused(ms(100))));
        cache.denials.insert(Denials::MAX_AGE, ticket, (&ALICE, &policy(quota)), denial);
    }
    let find =
        |quota| cache.denials.find(b"alice", &policy(quota), Cost::ONE, cache.start, |_| None);
    let held = || [1, 2, 3].map(|quota| find(quota).is_some());
    assert_eq!(held(), [true, true, false]);
    cache.denials.forget(b"alice");
    assert_eq!(held(), [false; 3]);
}

#[test]
fn a_long_wait_is_asked_about_again_after_a_second() {
    let cache = Cache::new(100);
    cache.remember(b"alice", 1, ms(86_400_000));
    assert_eq!(cache.retry_after(b"alice", 1, ms(999)), Some(ms(86_400_000 - 999)));
    assert_eq!(cache.find(b"alice", 1, Denials::MAX_AGE), None);
    cache.remember(b"bob", 1, Duration::MAX);
    assert!(cache.find(b"bob", 1, ms(999)).is_some());
}

#[test]
fn what_was_asked_before_a_refund_is_not_remembered_after_it() {
    let cache = Cache::new(100);
    let (before, denial) = (cache.denials.ticket(b"alice"), cache.denial(1, refused(ms(100))));
    cache.insert(denial);
    cache.denials.forget(b"alice");
    assert_eq!(cache.find(b"alice", 1, Duration::ZERO), None);
    cache.denials.insert(Denials::MAX_AGE, before, (&ALICE, &policy(1)), denial);
    assert_eq!(cache.find(b"alice", 1, Duration::ZERO), None);
    cache.insert(denial);
    assert!(cache.find(b"alice", 1, Duration::ZERO).is_some());
}

#[test]
fn forgetting_one_key_leaves_the_others() {
    let cache = Cache::new(1_000);
    let keys = (0..16_u8).map(|key| [key]).collect::<Vec<_>>();
    keys.iter().for_each(|key| cache.remember(key, 1, ms(100)));
    cache.denials.forget(&keys[0]);
    let left = keys.iter().filter(|key| cache.find(*key, 1, Duration::ZERO).is_some()).count();
    assert_eq!(left, 15);
}

#[test]
fn a_flood_of_refused_keys_takes_no_more_than_the_capacity() {
    for capacity in [0, 1, 15, 16, 17, 31, 33, 1_000] {
        let cache = Cache::new(capacity);
        let keys = (0..5_000_u64).map(u64::to_be_bytes).collect::<Vec<_>>();
        keys.iter().for_each(|key| cache.remember(key, 1, ms(100)));
        let held = keys.iter().filter(|key| cache.find(*key, 1, Duration::ZERO).is_some()).count();
        assert!(held <= capacity, "{held} of {capacity}");
        // Lines are of one size, and have been filled.
        assert!(held * 2 >= capacity, "{held} of {capacity}");
    }
}

#[test]
fn what_is_over_makes_room_first_and_then_what_is_over_next() {
    let cache = Cache::new(3);
    cache.remember(b"a", 1, ms(100));
    cache.remember(b"b", 1, ms(900));
    cache.remember(b"c", 1, ms(300));
    let held = |at| [b"a", b"b", b"c", b"d", b"e"].map(|key| cache.find(key, 1, ms(at)).is_some());
    cache.remember_at(ms(150), b"d", 1, ms(800));
    assert_eq!(held(150), [false, true, true, true, false]);
    cache.remember_at(ms(150), b"e", 1, ms(600));
    assert_eq!(held(150), [false, true, false, true, true]);
}

#[test]
fn no_key_is_taken_for_another() {
    let cache = Cache::new(10_000);
    let key = |number: u32| number.to_be_bytes().repeat(50);
    (0..1_000).for_each(|number| cache.remember(&key(number), 1, ms(500)));
    let found = |number: &u32| cache.find(&key(*number), 1, Duration::ZERO).is_some();
    assert_eq!((1_000..100_000).find(found), None);
    // Some lines may be full.
    assert!((0..1_000).filter(found).count() > 950);
}

#[test]
fn an_overlong_key_is_not_remembered() {
    let cache = Cache::new(100);
    cache.remember(&[7; 512], 1, ms(100));
    cache.remember(&[7; 513], 1, ms(100));
    assert!(cache.find(&[7; 512], 1, Duration::ZERO).is_some());
    assert_eq!(cache.find(&[7; 513], 1, Duration::ZERO), None);
}

/// By foldhash's fixed shared seed, which is public, the hash of these keys did not depend on their first bytes, under
/// any seed of the limiter: they were all in one line of the cache, and displaced its denials.
#[test]
fn nobody_can_prepare_keys_with_equal_hashes() {
    const FIXED: u64 = 0xc0ac_29b7_c97c_50dd;
    let key = |number: u64| [number, FIXED, FIXED].map(u64::to_ne_bytes).concat();
    let (one, other) = (key(1), key(2));
    let hasher = SeedableRandomState::with_seed(1, foldhash::SharedSeed::global_fixed());
    assert_eq!(hasher.hash_one(&one[..]), hasher.hash_one(&other[..]), "the attack is out of date");
    let hasher = Settings::default().hasher();
    assert_ne!(hasher.hash_one(&one[..]), hasher.hash_one(&other[..]));
}

/// The wait was that until the reserved window ends.
#[test]
fn a_larger_cost_waits_until_a_reserved_window_opens() {
    for text in ["10/min by fixed-window", "10/min by aligned-window"] {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &Policy::parse("test", text).unwrap(), 100);
        assert!(store.block_on(limiter.check_n("alice", cost(10))).unwrap().is_admitted());
        let minute = Duration::from_secs(60);
        assert!(store.block_on(limiter.reserve("alice", cost(3), minute)).unwrap().is_admitted());
        let opens = store.block_on(limiter.check_n("alice", cost(2))).unwrap().retry_after();
        let cached = store.block_on(limiter.check_n("alice", cost(7))).unwrap();
        assert_eq!((cached.source(), cached.retry_after()), (Source::Cache, opens), "{text}");
        store.pass(opens.unwrap());
        assert!(store.block_on(limiter.check_n("alice", cost(7))).unwrap().is_admitted(), "{text}");
    }
}

#[test]
fn a_known_refusal_asks_no_server() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &Policy::parse("test", "3/day").unwrap(), 100);
    let check = |permits| store.block_on(limiter.check_n("alice", cost(permits))).unwrap();
    assert!(check(2).is_admitted());
    let refused = check(2);
    assert_eq!((refused.is_admitted(), refused.source()), (false, Source::State));
    drop(store.client.sent());
    for _ in 0..100 {
        let again = check(2);
        assert_eq!((again.is_admitted(), again.source()), (false, Source::Cache));
        assert!(again.retry_after() <= refused.retry_after());
    }
    // A larger cost is refused too, and the refusal of what can never fit says so.
    assert_eq!(check(3).source(), Source::Cache);
    assert_eq!(check(4).retry_after(), None);
    assert_eq!(store.client.sent().len(), 0);
    // A smaller one may fit.
    assert!(check(1).is_admitted());
    assert_eq!(store.client.sent().len(), 1);
    let counted = limiter.counters();
    assert_eq!((counted.admitted, counted.refused, counted.cached), (2, 1, 102));
}

#[test]
fn a_cached_denial_of_one_permit_alone_refuses_without_a_call() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &Policy::parse("test", "20/day").unwrap(), 100);
    let take = |most| {
        let taken = store.block_on(limiter.take_up_to("alice", cost(most))).unwrap();
        (taken.permits(), taken.decision().source(), store.client.sent().len())
    };
    assert_eq!(take(17), (17, Source::State, 1));
    // This denial is of five permits, and three are left.
    assert!(!store.block_on(limiter.check_n("alice", cost(5))).unwrap().is_admitted());
    drop(store.client.sent());
    for expected in [(3, Source::State, 1), (0, Source::State, 1), (0, Source::Cache, 0)] {
        assert_eq!(take(5), expected);
    }
    assert_eq!(store.block_on(limiter.check("alice")).unwrap().source(), Source::Cache);
    // A charge is sent all the same.
    assert_eq!(store.block_on(limiter.charge("alice", cost(5))).unwrap().permits(), 5);
    assert_eq!(store.client.sent().len(), 1);
    let counters = limiter.counters();
    assert_eq!((counters.cached, counters.refused, counters.admitted), (2, 2, 2));
}
