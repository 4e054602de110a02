//! The settings of a limiter of requests in flight, and its keys.

use std::time::Duration;

use limiter_core::{ErrorKind, InFlightLimiter, Key};

use super::world::World;
use crate::{RedisInFlight, tests::store::policy};

#[test]
fn invalid_settings_are_errors_that_quote_them() {
    let world = World::new();
    let long = "x".repeat(65);
    for (builder, message) in [
        (RedisInFlight::builder("", 1), "invalid limit name \"\": use at least one character"),
        (RedisInFlight::builder(&long, 1), "use at most 64 bytes"),
        (RedisInFlight::builder("ü", 1), "invalid limit name \"ü\": use printable ASCII only"),
        (RedisInFlight::builder("a", 0), "invalid limit \"0\""),
        (
            world.builder(1).expires_after(Duration::from_millis(99)),
            "expiry of permits 99ms: use 100ms to 3600s",
        ),
        (world.builder(1).expires_after(Duration::from_secs(3_601)), "expiry of permits 3601s"),
        (
            world.builder(1).deadline(Duration::from_secs(11)),
            "deadline 11s of permits that expire after 30s",
        ),
        (world.builder(1).deadline(Duration::ZERO), "invalid deadline 0ns"),
        (world.builder(1).prefix(""), "invalid key prefix"),
        (world.builder(1).key_secret("short"), "invalid key secret"),
    ] {
        let error = builder.build_on(world.client()).err().expect(message);
        assert!(error.to_string().contains(message), "{error}");
    }
    let limiter = world.limiter(2);
    let error = limiter.set_limit(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(error.to_string().contains("\"0\""), "{error}");
    limiter.set_limit(7).unwrap();
    assert_eq!((limiter.limit(), limiter.clone().limit()), (7, 7));
    assert_eq!((limiter.name(), limiter.store()), ("test", "redis"));
    assert_eq!(limiter.expiry(), Duration::from_secs(30));
}

#[test]
fn keys_follow_the_conventions() {
    let world = World::new();
    let limiter = world.limiter(1);
    assert_eq!(limiter.stored_key("alice").unwrap(), b"limiter:{salice}:test:inflight");
    let limiter = RedisInFlight::builder("a:b/c", 1).prefix("shop");
    let limiter = limiter.build_on(world.client()).unwrap();
    assert_eq!(limiter.stored_key("alice").unwrap(), b"shop:{salice}:a%3Ab/c:inflight");
    assert_eq!(limiter.stored_key(Key::secret("x")).unwrap_err().kind(), ErrorKind::InvalidSetting);
    let limiter = world.builder(1).key_secret([7; 16]).build_on(world.client()).unwrap();
    let stored = String::from_utf8(limiter.stored_key(Key::secret("sk-1")).unwrap()).unwrap();
    assert!(stored.starts_with("limiter:{@") && stored.ends_with("}:test:inflight"), "{stored}");
}

#[test]
fn a_limiter_of_rates_lends_its_client_and_settings() {
    let world = World::new();
    let rates = world.store.limiter_with("shop", &policy("5/day"), |it| it.key_secret([7; 32]));
    // Handles of the same states, with other ids.
    let [uploads, again] = [(); 2].map(|()| rates.in_flight("uploads", 1).unwrap());
    assert_eq!(uploads.stored_key("alice").unwrap(), b"shop:{salice}:uploads:inflight");
    let key = || Key::secret("sk-1");
    let permit = world.admit(uploads.enter(key()));
    assert!(!world.ask(again.enter(key())).unwrap().is_admitted());
    drop(world.admit(again.enter_under(key(), 2)));
    drop(permit);
    world.run();
    let limiter: &dyn InFlightLimiter = &again;
    assert_eq!(world.ask(limiter.peek(&key(), 1)).unwrap().held(), 0);
    assert!(rates.in_flight("uploads", 0).is_err());
}
