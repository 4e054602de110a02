//! What handlers of axum extract.

use std::net::SocketAddr;

use axum::{Extension, body::Body, extract::connect_info::MockConnectInfo, http::request::Parts};

use crate::*;

fn limiter(name: &str) -> MemoryLimiter<ManualClock> {
    limiter_of(Policy::gcra(name, Quota::per_hour(100))).0
}

fn handlers(layer: RateLimitLayer) -> Router {
    let decisions = async |decisions: Decisions| decisions.iter().count().to_string();
    let charge = async |Extension(charge): Extension<Charge>| drop(charge.take());
    let router = Router::new().route("/decisions", get(decisions)).route("/charge", get(charge));
    router.layer(layer.decisions().chargeable())
}

async fn statuses(app: &Router) -> [StatusCode; 2] {
    let send = async |path| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status()
    };
    [send("/decisions").await, send("/charge").await]
}

#[tokio::test]
async fn a_request_that_is_not_counted_has_what_handlers_extract() {
    let tenant = || HeaderKey::new(HeaderName::from_static("x-tenant")).assume_verified().or_skip();
    let wait = Wait::up_to(Duration::from_secs(1));
    let off = RateLimitLayer::all([for_all(limiter("off"))]);
    off.switch_off();
    for layer in [
        off,
        RateLimitLayer::all([for_all(limiter("skip"))]).skip(|_| true),
        RateLimitLayer::all([for_all(limiter("a")), for_all(limiter("b"))]).skip(|_| true),
        // No rule has a key.
        RateLimitLayer::all([Rule::new(limiter("tenant"), tenant())]),
        RateLimitLayer::all([Rule::new(limiter("a"), tenant()), Rule::new(limiter("b"), tenant())]),
        RateLimitLayer::all([Rule::waiting(limiter("waiting"), tenant(), wait)]),
        // The server does not provide the address.
        RateLimitLayer::all([by_address(limiter("shadow")).with_mode(Mode::SHADOW)]),
    ] {
        let name = format!("{layer:?}");
        assert_eq!(statuses(&handlers(layer)).await, [StatusCode::OK; 2], "{name}");
    }
}

#[tokio::test]
async fn the_path_inside_of_a_nested_router_is_the_one_that_the_client_has_sent() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let rule = by_address(limiter("api")).cost(move |head| {
        seen.lock().unwrap().push((head.path().to_owned(), head.uri().to_string()));
        Cost::ONE
    });
    let asked = rule.clone();
    let handler = async move |parts: Parts| drop(asked.ask(&parts).await);
    let nested = Router::new().route("/export", get(handler));
    let app = Router::new()
        .nest("/api", nested.layer(RateLimitLayer::all([rule])))
        .layer(MockConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711))));
    let request = Request::get("/api/export?all=yes").body(Body::empty()).unwrap();
    assert_eq!(app.oneshot(request).await.unwrap().status(), StatusCode::OK);
    // In the layer, and in the handler.
    let expected = ("/api/export".to_owned(), "/api/export?all=yes".to_owned());
    assert_eq!(*paths.lock().unwrap(), [expected.clone(), expected]);
}

#[tokio::test]
async fn the_matched_path_is_the_routes_however_a_client_writes_it() {
    let limiter = limiter("api");
    let rule = by_address(limiter.clone())
        .cost(|head| Cost::of(if head.matched_path() == Some("/api/{name}") { 10 } else { 1 }));
    let nested = Router::new().route("/{name}", get(async || "")).layer(RateLimitLayer::from(rule));
    let app = Router::new().nest("/api", nested);
    for (path, used) in [("/api/export", 10), ("/api/%65xport", 20), ("/other", 20)] {
        let mut request = request().map(Body::new);
        *request.uri_mut() = path.parse().unwrap();
        app.clone().oneshot(request).await.unwrap();
        assert_eq!(limiter.peek(CLIENT).used(), used, "{path}");
    }
}
