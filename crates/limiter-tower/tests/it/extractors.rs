//! What handlers of axum extract.

use std::net::SocketAddr;

use axum::{Extension, body::Body, extract::connect_info::MockConnectInfo, http::request::Parts};

use crate::*;

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
    let off = RateLimitLayer::all([for_all(hourly("off", 100))]);
    off.switch_off();
    for layer in [
        off,
        RateLimitLayer::all([for_all(hourly("skip", 100))]).skip(|_| true),
        RateLimitLayer::all([for_all(hourly("a", 100)), for_all(hourly("b", 100))]).skip(|_| true),
        // No rule has a key.
        RateLimitLayer::all([Rule::new(hourly("tenant", 100), tenant())]),
        RateLimitLayer::all([
            Rule::new(hourly("a", 100), tenant()),
            Rule::new(hourly("b", 100), tenant()),
        ]),
        RateLimitLayer::all([Rule::waiting(hourly("waiting", 100), tenant(), wait)]),
        // The server does not provide the address.
        RateLimitLayer::all([by_address(hourly("shadow", 100)).with_mode(Mode::SHADOW)]),
    ] {
        let name = format!("{layer:?}");
        assert_eq!(statuses(&handlers(layer)).await, [StatusCode::OK; 2], "{name}");
    }
}

#[tokio::test]
async fn the_path_inside_of_a_nested_router_is_the_one_that_the_client_has_sent() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let rule = by_address(hourly("api", 100)).cost(move |head| {
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
    let limiter = hourly("api", 100);
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

/// Decisions are off by default, so the rejection names the method that switches them on.
#[tokio::test]
async fn the_extractor_of_decisions_says_how_to_switch_them_on() {
    let off = "the request has no rate limit decisions: call `decisions` on a `RateLimitLayer` around \
               this route";
    let rule = for_all(hourly("api", 10));
    let layer = RateLimitLayer::all([rule.clone()]);
    for (layer, status, expected) in
        [(layer.clone().decisions(), 200, "Some(9)"), (layer, 500, off)]
    {
        let rule = rule.clone();
        let handler = async move |decisions: Decisions| {
            let remaining = decisions.of(&rule).map(|decided| decided.decision().remaining());
            format!("{remaining:?}")
        };
        let app: Router = Router::new().route("/", get(handler)).layer(layer);
        let response = app.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(text(response).await, expected);
    }
}
