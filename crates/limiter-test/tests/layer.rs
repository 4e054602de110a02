//! The layer over limiters in Redis: refunds and delays reach the server.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use axum::body::Body;
use http::{Request, Response};
use limiter_core::{Policy, Quota};
use limiter_redis::{Connection, RedisLimiter};
use limiter_test::server::Server;
use limiter_tower::{OnMissing, RateLimitLayer, key::FixedKey, rule::Wait, settle::Keep};
use tower::{Layer, Service, ServiceExt, service_fn};

type Limiter = RedisLimiter<Connection>;

/// Returns a limiter that waits for replies as long as a busy machine needs.
async fn limiter(server: &Server, policy: Policy) -> Limiter {
    let client = limiter_redis::connect(&server.url()).await.unwrap();
    let limiter = RedisLimiter::builder(client, policy).deadline(Duration::from_secs(10));
    limiter.build().unwrap()
}

fn everyone() -> FixedKey {
    FixedKey::new("everyone")
}

async fn respond(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

async fn status<S, B>(service: &S) -> u16
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    let request = Request::new(Body::empty());
    service.clone().oneshot(request).await.unwrap().status().as_u16()
}

/// Waits until so many permits are used: a refund is on its way for a while.
async fn until_used(limiter: &Limiter, permits: u64) {
    let start = Instant::now();
    loop {
        let used = limiter.peek("everyone").await.unwrap().used();
        if used == permits {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{used} permits used, not {permits}");
    }
}

#[tokio::test]
async fn a_later_refusal_refunds_the_earlier_charges() {
    let server = Server::start();
    let narrow = limiter(&server, Policy::gcra("narrow", Quota::per_day(9))).await;
    let wide = limiter(&server, Policy::gcra("wide", Quota::per_day(2))).await;
    let (layer, handle) = RateLimitLayer::new(narrow.clone(), everyone(), OnMissing::Reject)
        .and(wide.clone(), everyone(), OnMissing::Reject)
        .build();
    let service = layer.layer(service_fn(respond));
    for expected in [200, 200, 429, 429] {
        assert_eq!(status(&service).await, expected);
    }
    until_used(&narrow, 2).await;
    until_used(&wide, 2).await;
    assert_eq!(handle.unsent_refunds(), 0);
}

#[tokio::test]
async fn a_settled_charge_is_refunded() {
    let server = Server::start();
    let limiter = limiter(&server, Policy::gcra("api", Quota::per_day(9))).await;
    let layer = RateLimitLayer::new(limiter.clone(), everyone(), OnMissing::Reject);
    let service = layer.settle(|_| Keep::None).layer(service_fn(respond));
    for _ in 0..20 {
        assert_eq!(status(&service).await, 200);
        until_used(&limiter, 0).await;
    }
}

#[tokio::test]
async fn requests_are_delayed_in_the_servers_order() {
    let server = Server::start();
    let quota = Quota::per_second(20).with_burst(1);
    let limiter = limiter(&server, Policy::gcra("api", quota)).await;
    let wait = Wait::up_to(Duration::from_secs(5)).queue(3);
    let layer = RateLimitLayer::waiting(limiter, everyone(), OnMissing::Reject, wait);
    let service = layer.layer(service_fn(respond));
    let start = Instant::now();
    let requests = (0..6).map(|_| status(&service));
    let mut statuses = futures::future::join_all(requests).await;
    statuses.sort_unstable();
    // One at once, three delayed by 50 to 150 ms, two refused. On a slow machine one more may be
    // admitted at once.
    assert!(statuses.iter().filter(|status| **status == 200).count() >= 4, "{statuses:?}");
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
}
