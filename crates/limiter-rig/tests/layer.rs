//! The layer over limiters in Redis: what its names and leases mean there.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::body::Body;
use http::{Request, Response};
use limiter_core::{
    Block, Decision, Error, ErrorKind, Key, LimiterFuture, Policy, Quota, Source, Usage,
};
use limiter_redis::{ConnectOptions, RedisInFlight, RedisLimiter, connect_with};
use limiter_rig::{log::Log, server::Server};
use limiter_test::fake::Fake;
use limiter_tower::{
    InFlightRule, RateLimitLayer, Rule,
    key::{FixedKey, KeyExtractor},
};
use tower::{Layer, ServiceExt, service_fn};

/// Returns the key of one client, which sends all requests.
fn alice() -> impl KeyExtractor {
    FixedKey::new("alice").assume_verified()
}

/// Returns the status of the response to a request behind rules.
async fn status(layer: &RateLimitLayer) -> u16 {
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    service.oneshot(Request::new(Body::empty())).await.unwrap().status().as_u16()
}

/// Its keys in Redis have the names of its limiters.
#[tokio::test]
async fn a_renamed_rule_keeps_its_states_blocks_and_permits() {
    let server = Server::start();
    let key = "alice".into();
    let (mut keys, mut permits) = (Vec::new(), Vec::new());
    for (name, expected) in [("before", [200, 429]), ("after", [429, 429])] {
        let options = ConnectOptions::new().with_name(name);
        let connection = connect_with(&server.url(), &options).await.unwrap();
        let limiter = RedisLimiter::builder(Policy::gcra("login", Quota::per_day(1)));
        // As long as a busy machine needs.
        let limiter = limiter.denial_cache(0).deadline(Duration::from_secs(10));
        let rule = Rule::new(limiter.build_on(connection.clone()).unwrap(), alice());
        let rule = rule.shown_as(name).unwrap().block(Block::after(1)).unwrap();
        let in_flight = RedisInFlight::builder("uploads", 1).build_on(connection).unwrap();
        let in_flight = InFlightRule::new(in_flight, alice()).shown_as(name).unwrap();
        let layer = RateLimitLayer::all([rule.clone()]);
        assert_eq!([status(&layer).await, status(&layer).await], expected);
        until_blocked(&rule, &key).await;
        permits.push(in_flight.enter(&key).await);
        let found = server.command(&["KEYS", "*"]).unwrap();
        keys.push(found.lines().map(str::to_owned).collect::<BTreeSet<_>>());
    }
    assert_eq!([permits[0].is_ok(), permits[1].is_ok()], [true, false]);
    assert_eq!(keys[0], keys[1]);
}

/// Strikes that are counted in tasks of their own take a while.
async fn until_blocked(rule: &Rule, key: &Key<'_>) {
    let start = Instant::now();
    while rule.blocked_for(key).await.unwrap().is_zero() {
        assert!(start.elapsed() < Duration::from_secs(10), "not blocked");
        tokio::task::yield_now().await;
    }
}

/// Permits of a lease are the store's, so an outage ends, and the next one begins, for a rule whose permits are leased.
#[tokio::test]
async fn an_admission_by_a_lease_ends_an_outage() {
    let log = Log::start();
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let limiter = Fake::new(policy, move || {
        let leased = Decision::admitted(Usage::new(10, 9, Duration::from_secs(6)));
        LimiterFuture::ready(match failing.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable, "no connection")),
            false => Ok(leased.with_source(Source::Lease)),
        })
    });
    let layer = RateLimitLayer::new(limiter, FixedKey::new("everyone"));
    let begun = "WARN limiter_tower: rate limit store failed: no connection \
                 policy=\"default\" then=Allow";
    let over = "INFO limiter_tower: rate limit store recovered policy=\"default\"";
    let expected = [begun, over, begun];
    let start = Instant::now();
    for (line, fails_now) in [true, false, true].into_iter().enumerate() {
        fails.store(fails_now, Ordering::Relaxed);
        // An outage is over after a second without an error.
        while log.lines().len() == line {
            assert!(start.elapsed() < Duration::from_secs(60), "no outage begins or ends");
            status(&layer).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(log.lines(), expected[..=line]);
    }
}
