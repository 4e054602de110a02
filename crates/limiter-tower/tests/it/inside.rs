//! The same limiter inside a handler.

use axum::{
    Router,
    body::{self, Bytes},
    extract::State,
    http::request::Parts,
    response::Response,
    routing::post,
};
use http::Request;
use http_body_util::BodyExt;
use limiter_core::{Cost, Key, Policy, Quota};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    OnMissing, RateLimitLayer,
    handle::{Handle, Refused},
    key::{FixedKey, Head},
    observe::Decisions,
    refusal::problem_json,
    rule::Mode,
};
use tower::ServiceExt;

use crate::{header, limiter_of};

/// Charges as many permits to a user as the body has bytes.
async fn import(
    State(handle): State<Handle>,
    parts: Parts,
    body: Bytes,
) -> Result<String, Refused> {
    let rule = handle.rule("bytes").unwrap();
    let cost = Cost::new(body.len() as u64).unwrap();
    let decided = rule.check(&parts, &Key::from("user"), cost).await?;
    Ok(decided.map_or("uncounted".into(), |decided| decided.decision().remaining().to_string()))
}

/// Returns an app, a limiter of 100 bytes, and the handle.
fn app() -> (Router, Deferred, Handle) {
    let limiter = Deferred::new(limiter_of(Policy::gcra("bytes", Quota::per_hour(100))).0);
    let (_, handle) = RateLimitLayer::new(limiter.clone(), FixedKey::new("all"), OnMissing::Reject)
        .refuse_with(problem_json)
        .decisions()
        .build();
    (Router::new().route("/", post(import)).with_state(handle.clone()), limiter, handle)
}

async fn send(app: &Router, content_type: &str, length: usize) -> Response {
    let body = body::Body::from(vec![b'x'; length]);
    let request = Request::post("/").header("content-type", content_type).body(body).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_handler_charges_by_the_body_and_answers_with_the_layers_refusal() {
    let (app, _, _) = app();
    assert_eq!(text(send(&app, "text/plain", 70).await).await, "30");
    let refusal = send(&app, "text/plain", 40).await;
    assert_eq!(refusal.status(), 429);
    assert_eq!(header(refusal.headers(), "content-type"), Some("application/problem+json"));
    assert_eq!(header(refusal.headers(), "retry-after"), Some("360"));
    assert_eq!(header(refusal.headers(), "ratelimit"), Some("\"bytes\";r=30;t=360"));
    assert_eq!(text(send(&app, "text/plain", 30).await).await, "0");
}

#[tokio::test]
async fn a_handler_refuses_a_grpc_client_in_grpc() {
    let (app, _, _) = app();
    let refusal = send(&app, "application/grpc", 101).await;
    assert_eq!(refusal.status(), 200);
    assert_eq!(header(refusal.headers(), "grpc-status"), Some("8"));
    assert_eq!(header(refusal.headers(), "grpc-retry-pushback-ms"), Some("-1"));
}

#[tokio::test]
async fn a_handler_follows_mode_switch_and_store_failures() {
    let (app, limiter, handle) = app();
    limiter.set_failing(true);
    assert_eq!(text(send(&app, "text/plain", 10).await).await, "uncounted");
    limiter.set_failing(false);
    handle.switch_off();
    assert_eq!(text(send(&app, "text/plain", 1_000).await).await, "uncounted");
    handle.switch_on();
    handle.rule("bytes").unwrap().set_mode(Mode::SHADOW).unwrap();
    assert_eq!(send(&app, "text/plain", 1_000).await.status(), 200);
}

#[tokio::test]
async fn a_refusal_is_an_error_and_a_response() {
    let (_, _, handle) = app();
    let parts = Request::new(()).into_parts().0;
    let rule = handle.rule("bytes").unwrap();
    let refused = rule.check(&parts, &Key::from("user"), Cost::of(101)).await.unwrap_err();
    assert_eq!(refused.decision().unwrap().retry_after(), None);
    // A job has no request.
    let job = rule.check(Head::empty(), &Key::from("user"), Cost::of(100)).await.unwrap();
    assert_eq!(job.unwrap().decision().remaining(), 0);
    assert_eq!(refused.to_string(), "the rate limit refused the request");
    let response = refused.into_response();
    assert_eq!(response.status(), 429);
    assert!(response.extensions().get::<Decisions>().unwrap().get("bytes").is_some());
}
