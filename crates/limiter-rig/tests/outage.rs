//! Redis is paused in the middle of traffic: every request is answered soon after the deadline, as the layer's user
//! chose, and the limit holds again once it continues.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use axum::body::Body;
use futures::future::join_all;
use http::{Request, Response};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use limiter_tower::{
    RateLimitLayer, Rule,
    key::FixedKey,
    rule::{Mode, OnStoreFailure},
};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

const DEADLINE: Duration = Duration::from_millis(50);
/// So long that a busy machine answers within it, and shorter than the second after which the client takes its
/// connection for dead.
const SOON: Duration = Duration::from_millis(700);
const PATIENT: Duration = Duration::from_secs(10);
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
        let client = limiter_redis::connect(&redis.url()).await.unwrap();
        // Before the outage, replies count however late they are.
        let [hasty, patient] = [DEADLINE, PATIENT].map(|deadline| {
            let policy = Policy::gcra("test", Quota::per_day(LIMIT));
            // A cached denial would be refused without the server.
            let limiter = RedisLimiter::builder(policy).deadline(deadline).denial_cache(0);
            let limiter = limiter.build_on(client.clone()).unwrap();
            let rule = Rule::new(limiter, FixedKey::new("everyone"));
            let rule = rule.on_store_failure(choice).with_mode(mode);
            RateLimitLayer::all([rule]).layer(service_fn(async |_: Request<Body>| {
                Ok::<_, Infallible>(Response::new(Body::from("hello")))
            }))
        });
        for want in [200, 200, 200, refused] {
            let response = patient.clone().oneshot(Request::new(Body::empty())).await.unwrap();
            assert_eq!(response.status().as_u16(), want, "before the outage");
        }

        // A process that does not run is no fault of the layer, and lets this time pass only when both are due.
        let ask = async || {
            let response = hasty.clone().oneshot(Request::new(Body::empty()));
            let response =
                timeout(SOON, response).await.expect("an answer soon after the deadline");
            response.unwrap().status().as_u16()
        };
        redis.pause();
        let ask_ten = async || {
            let statuses = join_all((0..10).map(|_| ask())).await;
            assert!(statuses.iter().all(|status| *status == during), "{statuses:?}");
        };
        // After a second, the client takes its connection for dead.
        let paused = Instant::now();
        while client.is_connected() {
            assert!(paused.elapsed() < Duration::from_secs(60), "the connection is not given up");
            ask_ten().await;
            sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..100 {
            ask_ten().await;
        }
        redis.resume();
        let resumed = Instant::now();
        while ask().await != refused {
            assert!(resumed.elapsed() < Duration::from_secs(60), "the limit does not hold again");
        }
    }
}
