//! How many allocations a layer adds to a request that an axum `Router` serves.

use std::pin::pin;

use allocation_counter::measure;
use axum::{response::IntoResponse, routing::Route};
use tower::layer::util::Identity;

use super::*;

/// Returns the allocations of a request, once the layer's states have their memory.
fn of_request<L, E>(layer: L, status: StatusCode) -> u64
where
    L: Layer<Route> + Clone + Send + Sync + 'static,
    L::Service: Service<Request<axum::body::Body>, Response: IntoResponse, Error = E, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    E: Into<Infallible> + 'static,
{
    // The handler's response has a header field, as most have, so that the map has room.
    let app = Router::new().route("/", get(async || [("x-served", "1")])).layer(layer);
    // As `axum::serve` does: routes are then made once, and not for each request.
    let app: Router = app.with_state(());
    let serve = || {
        let request = request_from("192.0.2.1").map(|_| axum::body::Body::empty());
        let (mut app, mut served) = (app.clone(), None);
        let allocated = measure(|| served = poll_once(pin!(app.call(request))));
        (served.unwrap().unwrap().status(), allocated.count_total)
    };
    for _ in 0..3 {
        serve();
    }
    let (served, allocations) = serve();
    assert_eq!(served, status);
    allocations
}

#[test]
fn a_layer_in_a_router_allocates_only_its_fields() {
    let layer = |per_hour| RateLimitLayer::new(hourly("api", per_hour), ClientIp::peer());
    let plain = layer(100).answers(Answers::new().headers(Headers::None));
    // Axum allocates for a layer that does nothing, too.
    let nothing = of_request(Identity::new(), StatusCode::OK);
    for (what, allocations, most) in [
        ("without fields", of_request(plain, StatusCode::OK), nothing),
        ("with fields", of_request(layer(100), StatusCode::OK), nothing + 2),
        ("with decisions", of_request(layer(100).decisions(), StatusCode::OK), nothing + 6),
        ("refused", of_request(layer(2), StatusCode::TOO_MANY_REQUESTS), nothing + 4),
    ] {
        assert!(allocations <= most, "{what}: {allocations} allocations, at most {most} expected");
    }
}
