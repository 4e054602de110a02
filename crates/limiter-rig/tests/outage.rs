//! Redis is paused in the middle of traffic: every request is answered within the deadline plus
//! 20 ms, as the layer's user chose, and the limit holds again once it continues.
//!
//! The only test of its binary, since it measures time.

use std::{
    cell::Cell,
    convert::Infallible,
    time::{Duration, Instant},
};

use axum::body::Body;
use futures::future::join_all;
use http::{Request, Response};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::{machine::Machine, server::Server};
use limiter_tower::{
    RateLimitLayer, Rule,
    key::FixedKey,
    rule::{Mode, OnStoreFailure},
};
use tokio::time::sleep;
use tower::{Layer, ServiceExt, service_fn};

const DEADLINE: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_millis(20);
const LIMIT: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_delays_no_request_beyond_the_deadline() {
    // With the status of a refusal, and of a request during the outage.
    for (choice, mode, refused, during) in [
        (OnStoreFailure::Allow, Mode::ENFORCE, 429, 200),
        (OnStoreFailure::Deny, Mode::ENFORCE, 429, 503),
        // A shadow refuses nothing, and its requests still wait for the decision.
        (OnStoreFailure::Deny, Mode::SHADOW, 200, 200),
    ] {
        let redis = Server::start();
        let policy = Policy::gcra("test", Quota::per_day(LIMIT));
        let client = limiter_redis::connect(&redis.url()).await.unwrap();
        // A cached denial would be refused without the server.
        let limiter = RedisLimiter::builder(policy).deadline(DEADLINE).denial_cache(0);
        let limiter = limiter.build_on(client).unwrap();
        let rule =
            Rule::new(limiter, FixedKey::new("everyone")).on_store_failure(choice).with_mode(mode);
        let service = RateLimitLayer::all([rule]).layer(service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from("hello")))
        }));
        let (answers, slowest) = (Cell::new(0), Cell::new(Duration::ZERO));
        let ask = async || {
            let start = Instant::now();
            let response = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
            slowest.set(slowest.get().max(start.elapsed()));
            answers.set(answers.get() + 1);
            response.status().as_u16()
        };

        let machine = Machine::watch();
        for want in [200, 200, 200, refused] {
            assert_eq!(ask().await, want, "before the outage");
        }
        redis.pause();
        // Three seconds: beyond the second after which the client takes its connection for dead.
        let stopped = Instant::now();
        while stopped.elapsed() < Duration::from_secs(3) {
            let statuses = join_all((0..10).map(|_| ask())).await;
            // Once the connection is given up, answers are immediate.
            sleep(Duration::from_millis(1)).await;
            assert!(statuses.iter().all(|status| *status == during), "{statuses:?}");
        }
        redis.resume();
        let resumed = Instant::now();
        while ask().await != refused {
            assert!(resumed.elapsed() < Duration::from_secs(5), "the limit does not hold again");
        }
        assert_eq!(ask().await, refused);

        let (answers, slowest) = (answers.get(), slowest.get());
        let stalled = machine.longest_stall();
        println!(
            "{choice:?}, {mode:?}: {answers} requests answered, the slowest after {slowest:?}; \
             the machine itself stalled for {stalled:?} at most"
        );
        let bound = DEADLINE + GRACE + stalled;
        assert!(slowest <= bound, "answered only after {slowest:?}, and not within {bound:?}");
    }
}
