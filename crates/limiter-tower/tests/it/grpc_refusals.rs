//! The status of each kind of refusal, as a gRPC client reads it.

use http::header::CONTENT_TYPE;
use http_body::Body as _;
use http_body_util::Empty;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::*;

/// Returns a rule of one permit a minute, by a clock that does not move.
fn rule(key: impl KeyExtractor + 'static) -> Rule {
    Rule::new(limiter(Quota::per_minute(1)).0, key)
}

/// Sends a gRPC request through the layer.
async fn call(layer: &RateLimitLayer) -> Response<Empty<Bytes>> {
    let service = layer.layer(service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Empty::new()))
    }));
    let request = Request::post("/test.Echo/Echo").header(CONTENT_TYPE, "application/grpc+proto");
    service.oneshot(request.body(Empty::new()).unwrap()).await.unwrap()
}

/// Returns the status of a call that is refused.
async fn status(layer: &RateLimitLayer) -> Status {
    let response = call(layer).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers().get(CONTENT_TYPE).unwrap(), "application/grpc");
    assert!(response.body().is_end_stream());
    Status::from_header_map(response.headers()).unwrap()
}

/// What a client reads: the code, the message, the pushback, and the delay and the policy of the details.
type Row = (Code, &'static str, Option<&'static str>, Option<u64>, Option<&'static str>);

#[tokio::test]
async fn each_refusal_has_its_status_its_pushback_and_its_details() {
    let all = || rule(FixedKey::new("all"));
    let x_api_key = HeaderName::from_static("x-api-key");
    let keyed = rule(HeaderKey::new(x_api_key).assume_verified().or_reject());
    let exhausted = Code::ResourceExhausted;
    let refused = "rate limit exceeded";
    let never = "the request costs more than the rate limit can admit";
    // Only a debug build says to the client what to change.
    let address = match cfg!(debug_assertions) {
        true => "the rate limit is not set up: ",
        false => "the rate limit is not set up",
    };
    let rows: [(Rule, Row); 7] = [
        (all(), (exhausted, refused, Some("60000"), Some(60), Some("default"))),
        (
            all().disclose(Disclosure::RetryAfterOnly),
            (exhausted, refused, Some("60000"), Some(60), None),
        ),
        (all().disclose(Disclosure::None), (exhausted, refused, None, None, None)),
        // It asks for no retry.
        (all().cost(|_| Cost::of(2)), (exhausted, never, Some("-1"), None, Some("default"))),
        (keyed, (Code::InvalidArgument, "missing header field `x-api-key`", None, None, None)),
        (rule(ClientIp::peer()), (Code::Internal, address, None, None, None)),
        (
            for_all(returning(Err(ErrorKind::Unavailable))).on_store_failure(OnStoreFailure::Deny),
            (Code::Unavailable, "", Some("1000"), Some(1), None),
        ),
    ];
    for (row, (rule, (code, message, pushback, delay, policy))) in rows.into_iter().enumerate() {
        let layer = RateLimitLayer::all([rule]).answers(Answers::new().grpc());
        // A quota is used up by the first one.
        let admitted = call(&layer).await;
        let is_admitted = !admitted.headers().contains_key("grpc-status");
        assert_eq!(is_admitted, code == exhausted && message == refused, "row {row}");
        let status = status(&layer).await;
        assert_eq!(status.code(), code, "row {row}");
        assert!(status.message().starts_with(message), "row {row}: {status:?}");
        let found = status.metadata().get("grpc-retry-pushback-ms");
        assert_eq!(found.map(|value| value.to_str().unwrap()), pushback, "row {row}");
        let details = status.check_error_details().unwrap();
        let wait = details.retry_info().and_then(|retry| retry.retry_delay);
        assert_eq!(wait, delay.map(Duration::from_secs), "row {row}");
        let quota = details.quota_failure().map(|quota| &*quota.violations[0].subject);
        assert_eq!(quota, policy, "row {row}");
        let has_details = delay.is_some() || policy.is_some();
        assert_eq!(!status.details().is_empty(), has_details, "row {row}");
    }
}

/// The response to HTTP clients is not sent to gRPC clients, and `Unavailable` is a choice.
#[tokio::test]
async fn a_refusal_has_the_code_that_was_chosen() {
    let own = Answers::new().grpc().refuse_with(|_| Response::new("refused".into()));
    let unavailable = Answers::new().grpc_unavailable();
    for (answers, code) in [(own, Code::ResourceExhausted), (unavailable, Code::Unavailable)] {
        let layer = RateLimitLayer::all([rule(FixedKey::new("all"))]).answers(answers);
        call(&layer).await;
        let status = status(&layer).await;
        assert_eq!(status.code(), code);
        assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "60000");
    }
}
