//! Limits, permits and errors.

use std::sync::Arc;

use limiter_core::{
    Entry, ErrorKind, InFlight, InFlightBuilder, InFlightLimiter, Key, ManualClock, Occupancy,
    Source,
};

use super::{Limiter, limiter, permits};

fn is_refused(entry: Entry) -> bool {
    let is_admitted = entry.is_admitted();
    assert_eq!(entry.into_permit().is_some(), is_admitted);
    !is_admitted
}

/// The permit of an entry whose result nobody reads.
#[test]
fn an_entry_that_is_dropped_gives_its_permit_back() {
    let limiter = limiter(1);
    drop(limiter.try_enter("alice"));
    assert_eq!(limiter.held("alice"), 0);
}

#[test]
fn a_panic_gives_the_permit_back() {
    let limiter = limiter(1);
    let other = limiter.clone();
    let work = std::thread::spawn(move || {
        let _permit = permits([other.try_enter("alice")]);
        std::panic::resume_unwind(Box::new("the handler fails"));
    });
    assert!(work.join().is_err());
    assert_eq!((limiter.held("alice"), limiter.stats().keys()), (0, 0));
}

#[test]
fn a_permit_in_memory_is_never_lost() {
    let permit = limiter(1).try_enter("alice").into_permit().unwrap();
    assert!(!permit.is_lost() && !permit.can_be_lost());
    assert_eq!(format!("{permit:?}"), "InFlightPermit { is_lost: false }");
}

/// A permit outlives all handles.
#[test]
fn a_permit_needs_no_limiter() {
    let limiter = limiter(1);
    let permit = permits([limiter.try_enter("alice")]);
    drop(limiter);
    drop(permit);
}

#[test]
fn stats_add_up_over_all_keys() {
    let limiter = InFlight::builder("test", 3).capacity(1_000).build().unwrap();
    let held: Vec<_> = (0..300).map(|key| limiter.try_enter(key % 150)).collect();
    let stats = limiter.stats();
    let figures = (stats.held(), stats.keys(), stats.capacity(), stats.waiting());
    assert_eq!(figures, (300, 150, 1_000, 0));
    drop(held);
    assert_eq!((limiter.stats().held(), limiter.stats().keys()), (0, 0));
}

fn enters_and_resets(limiter: &dyn InFlightLimiter, limit: u32) {
    let key = Key::from("alice");
    let take = |limit| limiter.enter(&key, limit).take_ready().unwrap().unwrap();
    let peek = || limiter.peek(&key, limit).take_ready().unwrap().unwrap();
    assert_eq!((limiter.name(), limiter.store(), limiter.limit()), ("test", "memory", limit));
    let held = permits([take(limit)]);
    assert_eq!(peek(), Occupancy::new(1, limit));
    assert!(is_refused(take(1)));
    limiter.reset(&key).take_ready().unwrap().unwrap();
    assert_eq!(peek(), Occupancy::new(0, limit));
    drop(held);
    limiter.set_limit(limit + 1).unwrap();
    assert_eq!(limiter.limit(), limit + 1);
    assert_eq!(limiter.set_limit(0).unwrap_err().kind(), ErrorKind::InvalidSetting);
    assert_eq!(limiter.limit(), limit + 1);
}

#[test]
fn the_trait_and_its_pointers_do_the_same() {
    let limiter = limiter(2);
    enters_and_resets(&limiter, 2);
    let shared: Arc<dyn InFlightLimiter> = Arc::new(limiter.clone());
    enters_and_resets(&shared, 3);
    let boxed: Box<dyn InFlightLimiter> = Box::new(limiter.clone());
    enters_and_resets(&boxed, 4);
    assert_eq!(limiter.id(), limiter.clone().id());
    assert_ne!(limiter.id(), super::limiter(2).id());
    assert_eq!(format!("{limiter:?}"), "InFlight { name: \"test\", limit: 5, .. }");
}

/// With the trait in scope, `peek` of an `Arc` was that of the trait, which takes no `&str` and returns a future.
#[test]
fn a_pointer_to_a_limiter_in_memory_has_its_methods() {
    let limiter = Arc::new(limiter(2));
    let held = permits([limiter.try_enter("alice")]);
    assert_eq!(limiter.peek("alice").held(), 1);
    let limiter = Box::new(Arc::clone(&limiter));
    limiter.reset("alice");
    assert!([&limiter].iter().all(|limiter| limiter.peek("alice").held() == 0));
    drop(held);
}

#[test]
fn invalid_settings_are_quoted() {
    let built = |builder: InFlightBuilder| builder.build().map(drop).unwrap_err();
    let named = |name: &str| built(InFlight::builder(name, 1));
    let sized = |keys| built(InFlight::builder("test", 1).capacity(keys));
    let zero = "invalid limit \"0\": it would refuse every request; use 1 or more";
    let long = "x".repeat(65);
    let too_long = format!("invalid limit name {long:?}: use at most 64 bytes");
    let [name, setting] = [ErrorKind::InvalidName, ErrorKind::InvalidSetting];
    for (error, kind, message) in [
        (InFlight::new("test", 0).map(drop).unwrap_err(), setting, zero),
        (limiter(1).set_limit(0).unwrap_err(), setting, zero),
        (named(""), name, "invalid limit name \"\": use at least one character"),
        (named("café"), name, "invalid limit name \"café\": use printable ASCII only"),
        (named(&long), name, &too_long),
        (sized(0), setting, "invalid capacity \"0\": use 1 to 268435456"),
        (sized(268_435_457), setting, "invalid capacity \"268435457\": use 1 to 268435456"),
    ] {
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
}

fn of_capacity(keys: usize) -> Limiter {
    let builder = InFlight::builder("test", 2).capacity(keys).clock(ManualClock::new());
    builder.build().unwrap()
}

#[test]
fn a_full_table_refuses_new_keys_and_no_others() {
    for capacity in [1, 2, 63, 64, 65, 1_000] {
        let limiter = of_capacity(capacity);
        let mut held = permits((0..capacity).map(|key| limiter.try_enter(key)));
        let refused = limiter.try_enter("new");
        assert_eq!(refused.occupancy().source(), Source::FullTable);
        assert_eq!(refused.occupancy().remaining(), 0);
        assert!(is_refused(refused));
        assert_eq!(limiter.peek("new").source(), Source::FullTable);
        assert_eq!(limiter.stats().times_full(), 1);
        drop(permits([limiter.try_enter(0)]));
        assert_eq!(limiter.peek(0), Occupancy::new(1, 2));

        // The last key has no permit any more, so another one has its place at once.
        drop(held.remove(capacity - 1));
        assert_eq!(limiter.peek("new"), Occupancy::new(0, 2), "capacity {capacity}");
        assert!(limiter.try_enter("new").is_admitted());
    }
}

/// Each part of a large table keeps a place for the next key, which keys of other parts can't have.
#[test]
fn a_large_table_is_full_at_its_capacity_or_64_keys_earlier() {
    let limiter = of_capacity(6_400);
    for key in 0..10_000 {
        assert!(limiter.try_enter(key).is_admitted());
    }
    let is_admitted = |entry: &Entry| entry.is_admitted();
    let held: Vec<_> = (0..6_400).map(|key| limiter.try_enter(key)).filter(is_admitted).collect();
    println!("{} keys have a place", held.len());
    assert!(held.len() >= 6_400 - 64);
    let more: Vec<_> = (0..20_000).map(|key| limiter.try_enter(key + 6_400)).collect();
    assert!(limiter.stats().keys() <= 6_400);
    drop((held, more));
    assert_eq!((limiter.stats().held(), limiter.stats().keys()), (0, 0));
}
