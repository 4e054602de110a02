//! What clients and handlers receive.

use limiter_tower::service::HeldBody;

use super::*;
use crate::dialect_choices::{EACH, has_lists};

/// Returns the responses to a request that is admitted and is in flight, and to one that is refused.
async fn both(layer: &InFlightLayer) -> [Response<HeldBody<Stream>>; 2] {
    let service = behind_layer(layer, two_frames);
    [send(&service).await, send(&service).await]
}

#[tokio::test]
async fn a_refusal_is_429_without_a_time() {
    let [admitted, refused] = both(&InFlightLayer::all([rule(1).0])).await;
    let policy = r#""uploads";q=1;qu="concurrent-requests""#;
    for (response, status) in [(&admitted, 200), (&refused, 429)] {
        assert_eq!(response.status(), status);
        assert_eq!(header(response.headers(), "ratelimit-policy"), Some(policy));
        assert_eq!(header(response.headers(), "ratelimit"), Some(r#""uploads";r=0"#));
        assert_eq!(header(response.headers(), "retry-after"), None);
    }
    assert_eq!(header(refused.headers(), "cache-control"), Some("no-store"));
    assert_eq!(text(refused).await, "too many requests in flight\n");
}

#[tokio::test]
async fn fields_are_next_to_those_of_rates() {
    let limiter = hourly("api", 10);
    let rate = RateLimitLayer::all([for_all(limiter)]);
    let inner = behind(&rule(3).0, two_frames);
    let service = rate.any_body().layer(inner);
    let mut responses = Vec::new();
    for remaining in [2, 1] {
        let response = service.clone().oneshot(Request::new(Body::default())).await.unwrap();
        let values = |name| response.headers().get_all(name).iter().collect::<Vec<_>>();
        let policies = [r#""uploads";q=3;qu="concurrent-requests""#, r#""api";q=10;w=3600"#];
        assert_eq!(values("ratelimit-policy"), policies);
        assert_eq!(values("ratelimit")[0], format!(r#""uploads";r={remaining}"#).as_str());
        for value in [values("ratelimit"), values("ratelimit-policy")].concat() {
            assert!(sfv::Parser::new(value.to_str().unwrap()).parse::<sfv::List>().is_ok());
        }
        responses.push(response);
    }
}

#[tokio::test]
async fn fields_with_a_reset_leave_the_limit_out() {
    for headers in EACH.into_iter().filter(|choice| !has_lists(*choice)) {
        let layer = InFlightLayer::all([rule(1).0]).answers(Answers::new().headers(headers));
        for response in both(&layer).await {
            let is_field = |name: &&HeaderName| name.as_str().contains("ratelimit");
            assert_eq!(response.headers().keys().find(is_field), None, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn a_limit_of_the_service_is_503_by_choice_unless_the_client_is_over_its_own_too() {
    let of = |name| rule_of(&Counter::new(name, 1));
    let problem = |name: &str, title: &str, status: u16, violated: &[&str]| {
        json!({
            "type": format!("https://iana.org/assignments/http-problem-types#{name}"),
            "title": title,
            "status": status,
            "detail": "too many requests in flight",
            "violated-policies": violated,
        })
    };
    let quota = |violated| problem("quota-exceeded", "Quota Exceeded", 429, violated);
    let capacity = "Temporary Reduced Capacity";
    let capacity = problem("temporary-reduced-capacity", capacity, 503, &["service"]);
    let service = || of("service").unavailable();
    for (rules, problem, grpc_status) in [
        (vec![of("own")], quota(&["own"]), "8"),
        (vec![service()], capacity, "14"),
        (vec![of("own"), service()], quota(&["own", "service"]), "8"),
    ] {
        let answers = Answers::new().refuse_with(problem_json).grpc();
        let layer = InFlightLayer::all(rules).answers(answers);
        let [_admitted, refused] = both(&layer).await;
        assert_eq!(header(refused.headers(), "retry-after"), None);
        assert_eq!(refused.status().as_u16(), problem["status"]);
        let found: Value = serde_json::from_str(&text(refused).await).unwrap();
        assert_eq!(found, problem);
        assert_eq!(header(&call(&layer).await, "grpc-status"), Some(grpc_status), "{problem}");
    }
}

#[tokio::test]
async fn a_limit_of_the_service_that_is_hidden_keeps_its_status() {
    for answers in [Answers::new(), Answers::new().refuse_with(problem_json)] {
        let hidden = rule(0).0.unavailable().disclose(Disclosure::None);
        let layer = InFlightLayer::all([hidden]).answers(answers);
        assert_eq!(send(&behind_layer(&layer, empty)).await.status(), 503);
    }
}

#[tokio::test]
async fn a_refusal_names_each_full_limit_that_may_be_seen() {
    let of = |name, limit| rule_of(&Counter::new(name, limit));
    let (own, events_of_own) = Events::of(of("own", 1));
    let (of_service, events) = Events::of(of("service", 1));
    // A store is not asked once another limit refuses.
    let stored = Counter::new("stored", 1).slow();
    let in_store = rule_of(&stored);
    let secret = of("secret", 1).disclose(Disclosure::None);
    let layer = InFlightLayer::all([of("roomy", 5), own, secret, of_service, in_store])
        .answers(Answers::new().refuse_with(problem_json));
    let service = behind_layer(&layer, two_frames);
    let _admitted = send(&service).await;
    assert_eq!(stored.calls(), ["enter"]);
    let refused = send(&service).await;
    let body: Value = serde_json::from_str(&text(refused).await).unwrap();
    assert_eq!(body["violated-policies"], json!(["own", "service"]));
    assert_eq!(events_of_own.take(), ["allowed", "denied"]);
    assert_eq!(events.take(), ["allowed", "denied"]);
    assert_eq!(stored.calls(), [""; 0]);
}

/// Sends a gRPC call, and returns the response's header fields.
async fn call(layer: &InFlightLayer) -> HeaderMap {
    let service = behind_layer(layer, two_frames);
    let _admitted = send(&service).await;
    let response = service.oneshot(grpc_call()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(http_body::Body::is_end_stream(response.body()));
    response.headers().clone()
}

#[tokio::test]
async fn a_grpc_client_receives_resource_exhausted_without_pushback() {
    use tonic_types::StatusExt;
    let headers = call(&InFlightLayer::all([rule(1).0]).answers(Answers::new().grpc())).await;
    assert_eq!(header(&headers, "grpc-retry-pushback-ms"), None);
    let status = tonic::Status::from_header_map(&headers).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.message(), "too many requests in flight");
    let details = status.check_error_details().unwrap();
    assert!(details.retry_info().is_none());
    let violation = &details.quota_failure().unwrap().violations[0];
    assert_eq!((&*violation.subject, &*violation.description), ("uploads", "1 requests in flight"));
}

#[tokio::test]
async fn a_limit_that_is_not_disclosed_is_not_named() {
    for disclosure in [Disclosure::None, Disclosure::RetryAfterOnly] {
        let layer = InFlightLayer::all([rule(1).0.disclose(disclosure)]);
        for response in both(&layer.clone().answers(Answers::new().refuse_with(problem_json))).await
        {
            assert_eq!(header(response.headers(), "ratelimit-policy"), None);
            assert!(!text(response).await.contains("uploads"));
        }
        let headers = call(&layer.answers(Answers::new().grpc())).await;
        assert_eq!(header(&headers, "grpc-status-details-bin"), None);
    }
}

#[tokio::test]
async fn handlers_and_outer_layers_read_the_decision() {
    let uploads = rule(2).0;
    let asked = uploads.clone();
    let layer = InFlightLayer::all([uploads.clone()]).decisions();
    let service = behind_layer(&layer, move |request: Request<Body>| {
        let decisions = request.extensions().get::<Decisions>().unwrap();
        let decided = asked.decision_in(decisions).unwrap();
        assert!(decided.is_admitted() && decided.rule() == "uploads");
        assert_eq!((decided.occupancy().limit(), decisions.in_flight().count()), (2, 1));
        two_frames(request)
    });
    let responses = [send(&service).await, send(&service).await, send(&service).await];
    let held = responses.each_ref().map(|response| {
        let decided = uploads.decision_in(response.extensions().get().unwrap()).unwrap();
        (decided.occupancy().held(), decided.is_admitted())
    });
    assert_eq!(held, [(1, true), (2, true), (2, false)]);
}

#[tokio::test]
async fn a_closure_that_refuses_reads_why() {
    let layer = InFlightLayer::all([rule(1).0]).answers(Answers::new().refuse_with(|refusal| {
        assert!(matches!(refusal.reason(), Reason::InFlight(_)));
        assert!(refusal.policy().is_none() && refusal.decisions().next().is_none());
        let full = refusal.in_flight().next().unwrap();
        Response::new(format!("{} of {}", full.occupancy().held(), full.occupancy().limit()).into())
    }));
    let [_admitted, refused] = both(&layer).await;
    assert_eq!(text(refused).await, "1 of 1");
}

/// Behind `Disclosure::None`, no client learns whether a rate or a limit in flight has refused it.
#[tokio::test]
async fn an_undisclosed_limit_answers_as_an_undisclosed_rate() {
    let answers = Answers::new().refuse_with(problem_json).grpc();
    let secret = Disclosure::None;
    let limiter = hourly("api", 1);
    let rate = for_all(limiter).disclose(secret);
    let rate = RateLimitLayer::all([rate]);
    let uploads = InFlightLayer::all([rule(1).0.disclose(secret)]);
    for answers in [Answers::new(), answers] {
        let rate = rate.clone().answers(answers.clone()).any_body();
        let rate = rate.layer(service_fn(two_frames));
        let uploads = behind_layer(&uploads.clone().answers(answers), two_frames);
        let _held = send(&uploads).await;
        for content_type in ["application/grpc", "text/plain"] {
            let mut request = Request::new(Body::default());
            *request.method_mut() = Method::POST;
            request.headers_mut().insert("content-type", content_type.parse().unwrap());
            let _ = rate.clone().oneshot(request.clone()).await.unwrap();
            let by_rate = rate.clone().oneshot(request.clone()).await.unwrap();
            let in_flight = uploads.clone().oneshot(request).await.unwrap();
            assert_eq!(
                (by_rate.status(), by_rate.headers()),
                (in_flight.status(), in_flight.headers())
            );
            assert_eq!(text(by_rate).await, text(in_flight).await);
        }
    }
}
