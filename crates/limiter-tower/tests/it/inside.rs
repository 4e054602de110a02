//! A rule that is asked in a handler, or without a request.

use axum::{
    body::{self, Bytes},
    extract::State,
    http::request::Parts,
    response::{IntoResponse, Response},
    routing::post,
};
use limiter_tower::refusal::Refused;

use crate::*;

const TENANT: HeaderName = HeaderName::from_static("x-tenant");

fn bytes(permits: u64) -> Deferred {
    Deferred::new(hourly("bytes", permits))
}

/// Charges as many permits to a user as the body has bytes.
async fn import(State(rule): State<Rule>, parts: Parts, body: Bytes) -> Result<String, Refused> {
    let cost = Cost::new(body.len() as u64).unwrap();
    let admission = rule.ask(&parts).key("user").cost(cost).await?;
    let remaining = admission.decision().map(|decided| decided.decision().remaining());
    Ok(remaining.map_or("uncounted".into(), |remaining| remaining.to_string()))
}

fn app(rule: &Rule) -> Router {
    Router::new().route("/", post(import)).with_state(rule.clone())
}

async fn send(app: &Router, length: usize) -> Response {
    let request = Request::post("/").body(body::Body::from(vec![b'x'; length])).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn used(rule: &Rule, key: impl Into<Key<'_>>) -> u64 {
    rule.peek(&key.into()).await.unwrap().used()
}

fn of_tenant(name: &str) -> Request<()> {
    Request::builder().header(TENANT, name).body(()).unwrap()
}

#[tokio::test]
async fn a_handler_charges_by_the_body_and_its_refusal_is_a_response() {
    let app = app(&for_all(bytes(100)));
    assert_eq!(text(send(&app, 70).await).await, "30");
    let refusal = send(&app, 40).await;
    assert_eq!(refusal.status(), 429);
    assert_eq!(header(refusal.headers(), "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(header(refusal.headers(), "retry-after"), Some("360"));
    assert_eq!(header(refusal.headers(), "cache-control"), Some("no-store"));
    assert_eq!(text(refusal).await, "rate limit exceeded\n");
    assert_eq!(text(send(&app, 30).await).await, "0");
}

#[tokio::test]
async fn a_handler_follows_mode_and_store_failures() {
    let limiter = bytes(100);
    let rule = for_all(limiter.clone());
    limiter.set_failing(true);
    assert_eq!(text(send(&app(&rule), 10).await).await, "uncounted");
    let denying = rule.clone().on_store_failure(OnStoreFailure::Deny);
    assert_eq!(send(&app(&denying), 10).await.status(), 503);
    limiter.set_failing(false);
    assert_eq!(send(&app(&rule), 1_000).await.status(), 429);
    rule.set_mode(Mode::SHADOW);
    assert_eq!(send(&app(&rule), 1_000).await.status(), 200);
}

#[tokio::test]
async fn a_refusal_is_an_error_and_any_response() {
    let rule = for_all(bytes(100));
    let user = Key::from("user");
    let refused = rule.check(&user).cost(Cost::of(101)).await.unwrap_err();
    assert!(matches!(refused.reason(), Reason::Quota(decisions) if decisions.of(&rule).is_some()));
    assert_eq!((refused.retry_after(), refused.policy().map(Policy::name)), (None, Some("bytes")));
    assert_eq!(refused.to_string(), "the request costs more than the rate limit can admit");
    // A job has no request.
    let job = rule.check(&user).cost(Cost::of(100)).await.unwrap();
    assert_eq!(job.decision().unwrap().decision().remaining(), 0);

    let refused = rule.check(&user).await.unwrap_err();
    let error: &dyn std::error::Error = &refused;
    assert_eq!(error.to_string(), "rate limit exceeded");
    assert_eq!(refused.retry_after_seconds(), Some(36));
    let response = Answers::new().refuse_with(problem_json).respond(Head::empty(), &refused);
    assert_eq!(response.status(), 429);
    assert_eq!(header(response.headers(), "content-type"), Some("application/problem+json"));
    assert_eq!(header(response.headers(), "retry-after"), Some("36"));
    assert!(response.body().ends_with(br#","retry-after":36,"violated-policies":["bytes"]}"#));
}

#[tokio::test]
async fn a_handler_asks_with_the_key_the_cost_and_the_plan_of_the_layer() {
    let limiter = hourly("bytes", 10);
    let large =
        Plan::new(limiter.clone()).with_policy(&Policy::gcra("large", Quota::per_hour(100)));
    let large = large.unwrap();
    let rule = Rule::new(limiter, HeaderKey::new(TENANT).assume_verified().or(ClientIp::peer()))
        .cost(|head| if head.path() == "/export" { Cost::of(6) } else { Cost::ONE })
        .plan(move |head| head.headers.contains_key("x-large").then(|| large.clone()));
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 1).await, [200]);

    // The key of the layer: the address, and the tenant.
    let parts = request_to("/export").into_parts().0;
    let admission = rule.ask(&parts).await.unwrap();
    let decided = admission.decision().unwrap();
    assert_eq!((decided.decision().remaining(), decided.cost()), (3, Cost::of(6)));
    assert_eq!(rule.ask(&parts).await.unwrap_err().status(), 429);
    let _ = rule.ask(&of_tenant("acme")).await.unwrap();
    assert_eq!((used(&rule, rule.key(&parts).unwrap()).await, used(&rule, b"acme").await), (7, 1));

    // Its plan.
    let mut large = parts.clone();
    large.headers.insert("x-large", "yes".parse().unwrap());
    let admission = rule.ask(&large).await.unwrap();
    assert_eq!(admission.decision().unwrap().policy().name(), "large");
    // Another key, another cost.
    let _ = rule.ask(&parts).key("other").cost(Cost::of(2)).await.unwrap();
    assert_eq!(used(&rule, "other").await, 2);
}

#[tokio::test]
async fn a_request_without_the_key_is_rejected_or_not_counted_as_in_a_layer() {
    let rule = |key| Rule::new(bytes(1), key);
    let key = || HeaderKey::new(TENANT).assume_verified();
    let request = Request::new(());
    let refused = Rule::new(bytes(1), key().or_reject()).ask(&request).await.unwrap_err();
    assert!(matches!(refused.reason(), Reason::Rejected(MissingKey::Absent(_))));
    assert_eq!(refused.into_response().status(), StatusCode::BAD_REQUEST);
    for _ in 0..3 {
        let rule = Rule::new(bytes(1), key().or_skip());
        assert!(rule.ask(&request).await.unwrap().decision().is_none());
    }
    let refused = rule(ClientIp::peer()).ask(&request).await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let shadow = rule(ClientIp::peer()).with_mode(Mode::SHADOW);
    assert!(shadow.ask(&request).await.unwrap().decision().is_none());
}

#[tokio::test]
async fn a_check_of_a_rule_whose_plan_depends_on_the_request_needs_the_plan() {
    let limiter = hourly("bytes", 10);
    let own = Plan::new(limiter.clone());
    let gold = own.with_policy(&Policy::gcra("gold", Quota::per_hour(100))).unwrap();
    let rule = for_all(limiter).plan(|_| None);
    let alice = Key::from("alice");
    let refused = rule.check(&alice).cost(Cost::of(5)).await.unwrap_err();
    assert!(matches!(refused.reason(), Reason::Misconfigured));
    assert_eq!(refused.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(used(&rule, "alice").await, 0);

    let admission = rule.under(&gold).check(&alice).cost(Cost::of(50)).await.unwrap();
    assert_eq!(admission.decision().unwrap().policy().name(), "gold");
    // One state: half of gold's burst is half of the rule's own, so that 5 of 10 are left.
    assert_eq!(rule.under(&own).check(&alice).cost(Cost::of(6)).await.unwrap_err().status(), 429);
    assert_eq!(used(&rule, "alice").await, 5);
    // A plan for a request, too.
    let ask = rule.under(&gold);
    let admission = ask.ask(&Request::new(())).await.unwrap();
    assert_eq!(admission.decision().unwrap().policy().name(), "gold");
}

#[tokio::test]
async fn an_admission_refunds_and_charges_the_difference() {
    let memory = hourly("bytes", 100);
    let rules = [for_all(memory), for_all(bytes(100))];
    for (keep, left) in [(0, 0), (4, 4), (10, 10), (30, 30), (1_000, 100)] {
        for rule in &rules {
            let key = Key::from("user");
            rule.reset(&key).await.unwrap();
            let admission = rule.check(&key).cost(Cost::of(10)).await.unwrap();
            assert_eq!(used(rule, "user").await, 10);
            admission.keep(keep);
            // Through a store it is on its way for a while.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(used(rule, "user").await, left, "{keep} kept");
            assert_eq!(rule.unsent(), 0);
        }
    }
    // Without `keep`, the charge stays.
    for rule in &rules {
        let key = Key::from("other");
        drop(rule.check(&key).cost(Cost::of(10)).await.unwrap());
        assert_eq!(used(rule, "other").await, 10);
    }
}

#[tokio::test]
async fn an_admission_under_a_charge_after_is_charged_when_it_is_kept() {
    let limiter = hourly("bytes", 100);
    let rule = for_all(limiter).charge_after(|_| None);
    let admission = rule.check("user").cost(Cost::of(10)).await.unwrap();
    assert_eq!(used(&rule, "user").await, 0);
    admission.keep(7);
    assert_eq!(used(&rule, "user").await, 7);
}

#[tokio::test]
async fn a_handler_waits_as_a_layer_does() {
    let (limiter, clock) = limiter_of(Policy::gcra("bytes", Quota::per_second(1)));
    let wait = Wait::up_to(Duration::from_secs(1));
    let rule = Rule::waiting(limiter, ClientIp::peer(), wait);
    let request = request();
    let _ = rule.ask(&request).await.unwrap();
    let waiting = tokio::spawn({
        let (rule, request) = (rule.clone(), request.clone());
        async move { rule.ask(&request).await.unwrap().decision().unwrap().waited() }
    });
    while clock.next_wake().is_none() {
        tokio::task::yield_now().await;
    }
    // The second in the queue would wait for too long.
    assert_eq!(rule.ask(&request).await.unwrap_err().status(), 429);
    clock.advance(Duration::from_secs(1));
    assert!(waiting.await.unwrap().is_some());
}

#[test]
fn what_is_asked_in_a_handler_is_counted_as_in_a_layer() {
    let recorded = metrics::record(async {
        let limiter = hourly("bytes", 2);
        let rule = by_address(limiter);
        let request = request();
        for _ in 0..3 {
            drop(rule.ask(&request).await);
        }
        drop(rule.check(rule.key(&request).unwrap()).await);
        drop(rule.ask(&Request::new(())).await);
        rule.set_mode(Mode::SHADOW);
        drop(rule.ask(&request).await);
    });
    for (result, count) in
        [("allowed", 2.0), ("denied", 2.0), ("rejected", 1.0), ("shadow_denied", 1.0)]
    {
        let name = format!("ratelimit_requests_total policy=bytes result={result}");
        assert_eq!(recorded[&name], [count], "{result}");
    }
    let durations = &recorded["ratelimit_check_duration_seconds policy=bytes store=memory"];
    assert_eq!(durations.len(), 5);
}

#[tokio::test]
async fn a_handler_has_the_observer_the_fields_and_the_response_of_a_layer() {
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let events = Arc::clone(&seen);
    let limiter = hourly("api", 1);
    let rule = by_address(limiter).observe(move |event| {
        events.lock().unwrap().push((event.outcome.name(), event.head.path().to_owned()));
    });
    let mut request = request_to("/search");
    rule.ask(&request).await.unwrap();
    let refused = rule.ask(&request).await.unwrap_err();
    let expected = [("allowed", "/search".to_owned()), ("denied", "/search".to_owned())];
    assert_eq!(*seen.lock().unwrap(), expected);

    let answers = Answers::new().refuse_with(problem_json).grpc();
    let response = answers.respond(&request, &refused);
    assert_eq!(header(response.headers(), "ratelimit"), Some(r#""api";r=0;t=3600"#));
    assert_eq!(header(response.headers(), "content-type"), Some("application/problem+json"));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let of_layer = answers.respond(&request, &refused);
    let status = tonic::Status::from(refused);
    let expected = tonic::Status::from_header_map(of_layer.headers()).unwrap();
    assert_eq!(
        (status.code(), status.message()),
        (tonic::Code::ResourceExhausted, "rate limit exceeded")
    );
    assert_eq!(status.details(), expected.details());
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "3600000");
}

#[tokio::test]
async fn a_refusal_in_a_handler_is_no_strike_however_it_is_answered() {
    for by_answers in [true, false] {
        let hour = Duration::from_secs(3600);
        let block = Block::after(1).within(hour).lasting(hour);
        let login = by_address(hourly("login", 9)).block_by_response(block, |_| Strike::Count);
        let login = login.unwrap();
        let tokens = for_all(hourly("tokens", 1));
        let _ = tokens.check("all").await.unwrap();
        let handler = service_fn(move |request: Request<Body>| {
            let tokens = tokens.clone();
            async move {
                let (parts, _) = request.into_parts();
                let refused = tokens.ask(&parts).await.unwrap_err();
                Ok::<_, Infallible>(match by_answers {
                    true => Answers::new().respond(&parts, &refused).map(body::Body::from),
                    false => refused.into_response(),
                })
            }
        });
        let service = layer_of([login.clone()]).layer(handler);
        assert_eq!(service.oneshot(request()).await.unwrap().status(), 429);
        let request = request();
        let blocked = login.blocked_for(&login.key(&request).unwrap()).await.unwrap();
        assert_eq!(blocked, Duration::ZERO, "by answers: {by_answers}");
    }
}
