//! All clones, services and routes share one state, and the types can be named.

use std::{net::SocketAddr, sync::Arc};

use axum::{Extension, Router, body, extract::connect_info::MockConnectInfo, routing::get};
use http::{Request, StatusCode};
use limiter_core::{Limiter, MemoryLimiter, Policy, Quota};
use limiter_tower::{OnMissing, RateLimitLayer, key::FixedKey, observe::Decisions};
use tower::{Layer, ServiceExt, service_fn};

use crate::{hello, layer, per_address, request_from, send};

/// A layer in a struct, so that its type can be named.
struct Settings {
    layer: RateLimitLayer,
}

fn settings(limit: u64) -> Settings {
    let policy = Policy::gcra("default", Quota::per_hour(limit));
    let limiter: Arc<dyn Limiter> = Arc::new(MemoryLimiter::new(policy));
    Settings { layer: RateLimitLayer::new(limiter, FixedKey::new("all"), OnMissing::Reject) }
}

async fn status(app: &Router, path: &str) -> StatusCode {
    let request = Request::builder().uri(path).body(body::Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn clones_of_a_layer_and_its_services_share_one_limit() {
    let (layer, _) = layer();
    let services = [
        layer.layer(service_fn(hello)),
        layer.clone().layer(service_fn(hello)),
        layer.layer(service_fn(hello)).clone(),
    ];
    let mut admitted = 0;
    for round in 0..30 {
        let response = send(&services[round % 3], request_from("192.0.2.1")).await;
        admitted += u32::from(response.status() == StatusCode::OK);
    }
    assert_eq!(admitted, 10);
}

#[tokio::test]
async fn routes_under_one_layer_share_one_limit() {
    let Settings { layer } = settings(3);
    let app = Router::new()
        .route("/a", get(|| async { "a" }))
        .route("/b", get(|| async { "b" }))
        .layer(layer.clone())
        .route("/c", get(|| async { "c" }).layer(layer))
        .route("/free", get(|| async { "free" }));
    let mut statuses = Vec::new();
    for path in ["/a", "/b", "/c", "/a", "/b", "/c", "/free"] {
        statuses.push(status(&app, path).await.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 200]);
}

#[tokio::test]
async fn a_limiter_can_be_shared_by_two_layers() {
    let policy = Policy::gcra("default", Quota::per_hour(2));
    let limiter = Arc::new(MemoryLimiter::new(policy));
    let one = per_address(Arc::clone(&limiter)).layer(service_fn(hello));
    let other = per_address(limiter).layer(service_fn(hello));
    let mut statuses = Vec::new();
    for service in [&one, &other, &one, &other] {
        statuses.push(send(service, request_from("192.0.2.1")).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[tokio::test]
async fn two_layers_on_one_route_keep_both_decisions() {
    let named = |name, permits| {
        let policy = Policy::gcra(name, Quota::per_hour(permits));
        per_address(MemoryLimiter::new(policy))
    };
    let app = Router::new()
        .route(
            "/",
            get(|Extension(decisions): Extension<Decisions>| async move { names(&decisions) }),
        )
        .layer(named("inner", 5))
        .layer(named("outer", 9))
        .layer(MockConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711))));
    let request = Request::new(body::Body::empty());
    let response = app.oneshot(request).await.unwrap();
    let decisions = response.extensions().get::<Decisions>().unwrap().clone();
    assert_eq!(decisions.get("inner").unwrap().decision().remaining(), 4);
    assert_eq!(decisions.get("outer").unwrap().decision().remaining(), 8);
    assert_eq!(names(&decisions), "inner outer");
    let body = body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(body, "outer inner");
}

fn names(decisions: &Decisions) -> String {
    let names: Vec<_> = decisions.iter().map(|decided| decided.policy().name()).collect();
    names.join(" ")
}
