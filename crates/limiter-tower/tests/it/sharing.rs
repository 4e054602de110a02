//! All clones, services and routes share one state, and the types can be named.

use std::sync::Arc;

use axum::{Router, body, routing::get};
use http::{Request, StatusCode};
use limiter_core::{Limiter, MemoryLimiter, Policy, Quota};
use limiter_tower::{FixedKey, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::{hello, layer, request_from, send};

/// A layer in a struct, so that its type can be named.
struct Settings {
    layer: RateLimitLayer<Arc<dyn Limiter>, FixedKey>,
}

fn settings(limit: u64) -> Settings {
    let policy = Policy::gcra("default", Quota::per_hour(limit));
    let limiter: Arc<dyn Limiter> = Arc::new(MemoryLimiter::new(policy));
    Settings { layer: RateLimitLayer::new(limiter).with_key(FixedKey::new("all")) }
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
    let one = RateLimitLayer::new(Arc::clone(&limiter)).layer(service_fn(hello));
    let other = RateLimitLayer::new(limiter).layer(service_fn(hello));
    let mut statuses = Vec::new();
    for service in [&one, &other, &one, &other] {
        statuses.push(send(service, request_from("192.0.2.1")).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}
