//! What clients see of a rule that is not disclosed.

use http_body_util::BodyExt;

use crate::*;

/// Returns what a client receives that is refused by an undisclosed limit: because it is used up, or because the cost
/// never fits.
async fn refusals(
    answers: &Answers,
    request: fn() -> Request<Body>,
) -> [(u16, HeaderMap, Bytes); 2] {
    let mut refusals = Vec::new();
    for cost in [1, 2] {
        let rule = by_address(hourly("default", 1));
        let rule = rule.cost(move |_| Cost::of(cost)).disclose(Disclosure::None);
        let layer = layer_of([rule]).answers(answers.clone());
        let service = layer.layer(service_fn(hello));
        send(&service, request()).await;
        let (parts, body) = send(&service, request()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        refusals.push((parts.status.as_u16(), parts.headers, body));
    }
    refusals.try_into().unwrap()
}

#[tokio::test]
async fn an_undisclosed_limit_does_not_report_that_a_cost_never_fits() {
    let problem = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429}"#;
    for (answers, status, body, grpc) in [
        (Answers::new(), 429, "rate limit exceeded\n", [None; 2]),
        (Answers::new().refuse_with(problem_json), 429, problem, [None; 2]),
        (Answers::new().grpc(), 200, "", [Some("8"), Some("rate limit exceeded")]),
    ] {
        let [used_up, never] =
            refusals(&answers, if status == 200 { grpc_call } else { request }).await;
        assert_eq!((never.0, &*never.2), (status, body.as_bytes()));
        assert_eq!(["grpc-status", "grpc-message"].map(|name| header(&never.1, name)), grpc);
        for field in ["retry-after", "grpc-retry-pushback-ms", "grpc-status-details-bin"] {
            assert_eq!(header(&never.1, field), None, "{body}: {field}");
        }
        assert_eq!(used_up, never);
    }
}

/// Beside a rule that is disclosed, and refuses as well.
#[tokio::test]
async fn an_undisclosed_limit_does_not_report_it_beside_another() {
    let layer = |never: bool| {
        let secret = for_all(limiter_of(Policy::gcra("secret", Quota::per_day(1))).0);
        let public = by_address(hourly("public", 1));
        let cost = move |head: Head<'_>| match head.path() {
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
