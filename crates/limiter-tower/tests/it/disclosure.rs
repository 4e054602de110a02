//! What clients see of a rule that is not disclosed.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use limiter_core::{Cost, Policy, Quota};
use limiter_tower::{
    Answers, RateLimitLayer, observe::Decisions, refusal::problem_json, rule::Disclosure,
};
use tower::{Layer, service_fn};

use crate::{
    Body, by_address, for_all, grpc_call, header, hello, hourly, layer_of, limiter_of,
    request_from, request_to, send, text,
};

/// Returns what a client receives that is refused by an undisclosed limit: because it is used up, or because the cost
/// never fits.
async fn refusals(
    configure: impl Fn(RateLimitLayer) -> RateLimitLayer,
    request: impl Fn() -> Request<Body>,
) -> [(u16, HeaderMap, Bytes); 2] {
    let mut refusals = Vec::new();
    for cost in [1, 2] {
        let rule = by_address(hourly("default", 1));
        let rule = rule.cost(move |_| Cost::of(cost)).disclose(Disclosure::None);
        let layer = configure(layer_of([rule]));
        let service = layer.layer(service_fn(hello));
        send(&service, request()).await;
        let (parts, body) = send(&service, request()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        refusals.push((parts.status.as_u16(), parts.headers, body));
    }
    refusals.try_into().unwrap()
}

fn request() -> Request<Body> {
    request_from("192.0.2.1")
}

#[tokio::test]
async fn an_undisclosed_limit_does_not_report_that_a_cost_never_fits() {
    let [used_up, never] = refusals(|layer| layer, request).await;
    assert_eq!((never.0, &*never.2), (429, &b"rate limit exceeded\n"[..]));
    assert_eq!(header(&never.1, "retry-after"), None);
    assert_eq!(used_up, never);

    let [used_up, never] =
        refusals(|layer| layer.answers(Answers::new().refuse_with(problem_json)), request).await;
    let body = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429}"#;
    assert_eq!(never.2, body);
    assert_eq!(used_up, never);

    let grpc = |layer: RateLimitLayer| layer.answers(Answers::new().grpc());
    let [used_up, never] = refusals(grpc, grpc_call).await;
    assert_eq!(header(&never.1, "grpc-status"), Some("8"));
    assert_eq!(header(&never.1, "grpc-message"), Some("rate limit exceeded"));
    assert_eq!(header(&never.1, "grpc-retry-pushback-ms"), None);
    assert_eq!(header(&never.1, "grpc-status-details-bin"), None);
    assert_eq!(used_up, never);
}

/// Beside a rule that is disclosed, and refuses as well.
#[tokio::test]
async fn an_undisclosed_limit_does_not_report_it_beside_another() {
    let layer = |never: bool| {
        let secret = for_all(limiter_of(Policy::gcra("secret", Quota::per_day(1))).0);
        let public = by_address(hourly("public", 1));
        let cost = move |head: limiter_tower::key::Head<'_>| match head.path() {
            "/again" if never => Cost::of(2),
            _ => Cost::ONE,
        };
        let rules = [secret.cost(cost).disclose(Disclosure::None), public];
        layer_of(rules).answers(Answers::new().refuse_with(problem_json))
    };
    let mut refusals = Vec::new();
    for never in [false, true] {
        let service = layer(never).layer(service_fn(hello));
        assert_eq!(send(&service, request()).await.status(), 200);
        let (parts, body) = send(&service, request_to("/again")).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(header(&parts.headers, "retry-after"), Some("3600"));
        assert_eq!(header(&parts.headers, "ratelimit"), Some("\"public\";r=0;t=3600"));
        assert!(body.ends_with(br#""retry-after":3600,"violated-policies":["public"]}"#));
        refusals.push((parts.status, parts.headers, body));
    }
    assert_eq!(refusals[0], refusals[1]);
}

/// Only when to retry: that a retry never helps is part of it.
#[tokio::test]
async fn a_limit_that_discloses_its_waits_reports_that_a_cost_never_fits() {
    let rule = by_address(hourly("default", 1));
    let rule = rule.cost(|_| Cost::of(2)).disclose(Disclosure::RetryAfterOnly);
    let service = layer_of([rule]).layer(service_fn(hello));
    let refusal = send(&service, request()).await;
    assert_eq!(header(refusal.headers(), "ratelimit"), None);
    assert_eq!(text(refusal).await, "the request costs more than the rate limit can admit\n");
}

/// The service learns the waits that clients don't.
#[tokio::test]
async fn decisions_of_undisclosed_limits_have_their_waits() {
    let rules = [
        by_address(hourly("hourly", 1)),
        for_all(limiter_of(Policy::gcra("daily", Quota::per_day(1))).0),
    ];
    for disclosures in [
        [Disclosure::None, Disclosure::None],
        [Disclosure::Full, Disclosure::None],
        [Disclosure::None, Disclosure::RetryAfterOnly],
    ] {
        let mut rules = rules.clone().into_iter().zip(disclosures);
        let mut next = || rules.next().map(|(rule, disclosure)| rule.disclose(disclosure)).unwrap();
        let rules = [next(), next()];
        let service = layer_of(rules.clone()).layer(service_fn(hello));
        send(&service, request()).await;
        let refusal = send(&service, request()).await;
        let decisions = refusal.extensions().get::<Decisions>().unwrap();
        let waits = rules.map(|rule| decisions.of(&rule).unwrap().decision().retry_after());
        let expected = [3_600, 86_400].map(|seconds| Some(Duration::from_secs(seconds)));
        assert_eq!(waits, expected, "{disclosures:?}");
    }
}
