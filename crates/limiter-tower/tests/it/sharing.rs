//! All clones, services and routes share one state, and the types can be named.

use std::net::SocketAddr;

use axum::{Extension, body, extract::connect_info::MockConnectInfo};

use crate::*;

/// A layer in a struct, so that its type can be named.
struct Settings {
    layer: RateLimitLayer,
}

#[tokio::test]
async fn clones_of_a_layer_its_services_and_layers_of_one_limiter_share_one_limit() {
    let limiter = limiter(Quota::per_minute(10)).0;
    let layer = per_address(limiter.clone());
    let services = [
        layer.layer(service_fn(hello)),
        layer.clone().layer(service_fn(hello)),
        layer.layer(service_fn(hello)).clone(),
        per_address(limiter).layer(service_fn(hello)),
    ];
    for round in 0..40 {
        let expected = if round < 10 { 200 } else { 429 };
        assert_eq!(send(&services[round % 4], request()).await.status(), expected, "{round}");
    }
}

#[tokio::test]
async fn routes_under_one_layer_share_one_limit() {
    let limiter: Arc<dyn Limiter> = Arc::new(hourly("default", 3));
    let settings = Settings { layer: RateLimitLayer::new(limiter, FixedKey::new("all")) };
    let Settings { layer } = settings;
    let app = Router::new()
        .route("/a", get(|| async { "a" }))
        .route("/b", get(|| async { "b" }))
        .layer(layer.clone())
        .route("/c", get(|| async { "c" }).layer(layer))
        .route("/free", get(|| async { "free" }));
    let statuses = routed(&app, ["/a", "/b", "/c", "/a", "/b", "/c", "/free"]).await;
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 200]);
}

#[tokio::test]
async fn two_layers_on_one_route_keep_both_decisions() {
    let (inner, outer) = (by_address(hourly("inner", 5)), by_address(hourly("outer", 9)));
    let app = Router::new()
        .route(
            "/",
            get(|Extension(decisions): Extension<Decisions>| async move { names(&decisions) }),
        )
        .layer(layer_of([inner.clone()]))
        .layer(layer_of([outer.clone()]))
        .layer(MockConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711))));
    let request = Request::new(body::Body::empty());
    let response = app.oneshot(request).await.unwrap();
    let decisions = response.extensions().get::<Decisions>().unwrap().clone();
    assert_eq!(decisions.of(&inner).unwrap().decision().remaining(), 4);
    assert_eq!(decisions.of(&outer).unwrap().decision().remaining(), 8);
    assert_eq!(names(&decisions), "inner outer");
    let body = body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(body, "outer inner");
}

fn names(decisions: &Decisions) -> String {
    let names: Vec<_> = decisions.iter().map(|decided| decided.policy().name()).collect();
    names.join(" ")
}

#[tokio::test]
async fn a_rule_in_two_layers_is_one_rule() {
    let rule = by_address(hourly("default", 3));
    // One of the layers has another rule, too.
    let other = for_all(hourly("other", 99));
    let one = layer_of([rule.clone()]).layer(service_fn(hello));
    let two = layer_of([other, rule.clone()]).layer(service_fn(hello));
    let statuses = async || {
        let mut statuses = Vec::new();
        for service in [&one, &two, &one, &two] {
            statuses.push(send(service, request()).await.status().as_u16());
        }
        statuses
    };
    // One state.
    assert_eq!(statuses().await, [200, 200, 200, 429]);
    // One mode.
    rule.set_mode(Mode::SHADOW);
    assert_eq!(statuses().await, [200; 4]);
    rule.set_mode(Mode::ENFORCE);
    assert_eq!(statuses().await, [429; 4]);
    // One policy. The key was used up, and stays so until it is reset.
    rule.set_policy(&Policy::gcra("default", Quota::per_hour(5))).unwrap();
    assert_eq!(statuses().await, [429; 4]);
    let request = request();
    rule.reset(&rule.key(&request).unwrap()).await.unwrap();
    assert_eq!(statuses().await, [200; 4]);
    assert_eq!(statuses().await, [200, 429, 429, 429]);
    let decisions = send(&two, request.clone()).await.extensions().get::<Decisions>().cloned();
    assert!(decisions.unwrap().of(&rule.clone()).is_some());
    assert_eq!(rule.peek(&rule.key(&request).unwrap()).await.unwrap().used(), 5);
}
