//! Admissions and refusals, as a client receives them.

use axum::body;

use crate::*;

#[tokio::test]
async fn the_limit_is_admitted_and_the_rest_refused() {
    let (layer, _) = layer();
    let service = layer.layer(service_fn(hello));
    for remaining in (0..10).rev() {
        let response = send(&service, request()).await;
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers();
        assert_eq!(header(headers, "ratelimit-policy"), Some("\"default\";q=10;w=60"));
        let window = if remaining == 0 { 6 } else { remaining * 6 };
        let expected = format!("\"default\";r={remaining};t={window}");
        assert_eq!(header(headers, "ratelimit"), Some(expected.as_str()));
        assert_eq!(header(headers, "retry-after"), None);
    }
    for _ in 0..15 {
        let response = send(&service, request()).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = response.headers();
        assert_eq!(header(headers, "ratelimit-policy"), Some("\"default\";q=10;w=60"));
        assert_eq!(header(headers, "ratelimit"), Some("\"default\";r=0;t=6"));
        assert_eq!(header(headers, "retry-after"), Some("6"));
        assert_eq!(header(headers, "cache-control"), Some("no-store"));
        assert_eq!(header(headers, "content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(text(response).await, "rate limit exceeded\n");
    }
}

#[tokio::test]
async fn a_retry_after_the_wait_is_admitted_once() {
    let (layer, clock) = layer();
    let service = layer.layer(service_fn(hello));
    for _ in 0..10 {
        send(&service, request()).await;
    }
    clock.advance(Duration::from_millis(1));
    let refusal = send(&service, request()).await;
    // 5.999 s, rounded up.
    assert_eq!(header(refusal.headers(), "retry-after"), Some("6"));
    let wait = decision(refusal.extensions()).retry_after().unwrap();
    assert_eq!(wait, Duration::from_millis(5_999));

    clock.advance(wait - Duration::from_nanos(1));
    let early = send(&service, request()).await;
    assert_eq!(early.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(early.headers(), "retry-after"), Some("1"));

    clock.advance(Duration::from_nanos(1));
    assert_eq!(send(&service, request()).await.status(), StatusCode::OK);
    let again = send(&service, request()).await;
    assert_eq!(again.status(), StatusCode::TOO_MANY_REQUESTS);
}

/// Decisions are off by default, so the rejection names the method that switches them on.
#[tokio::test]
async fn the_extractor_of_decisions_says_how_to_switch_them_on() {
    for (has_decisions, expected) in [
        (true, "Some(9)"),
        (
            false,
            "the request has no rate limit decisions: call `decisions` on a `RateLimitLayer` around \
             this route",
        ),
    ] {
        let rule = for_all(limiter(Quota::per_minute(10)).0);
        let layer = RateLimitLayer::all([rule.clone()]);
        let layer = if has_decisions { layer.decisions() } else { layer };
        let handler = async move |decisions: Decisions| {
            let remaining = decisions.of(&rule).map(|decided| decided.decision().remaining());
            format!("{remaining:?}")
        };
        let app: Router = Router::new().route("/", get(handler)).layer(layer);
        let response = app.oneshot(Request::new(body::Body::empty())).await.unwrap();
        assert_eq!(response.status() == 200, has_decisions);
        let body = body::to_bytes(response.into_body(), 1_000).await.unwrap();
        assert_eq!(body, expected);
    }
}
