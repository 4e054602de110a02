//! The status of each kind of refusal, as a gRPC client reads it.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Body as _;
use http_body_util::Empty;
use limiter_core::{
    Cost, Error, ErrorKind, LimiterFuture, ManualClock, MemoryLimiter, Policy, Quota,
};
use limiter_test::fake::Fake;
use limiter_tower::{
    Answers, ClientIp, RateLimitLayer, Rule,
    key::{FixedKey, HeaderKey, KeyExtractor, MaybeKey},
    refusal::GrpcStatus,
    rule::{Disclosure, OnStoreFailure},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt};

use crate::for_all;

/// Returns a layer of one permit a minute, with a clock that does not move.
fn layer(key: impl KeyExtractor + 'static) -> RateLimitLayer {
    RateLimitLayer::all([rule(key)]).answers(Answers::new().grpc())
}

/// Returns the rule of such a layer.
fn rule(key: impl KeyExtractor + 'static) -> Rule {
    let policy = Policy::gcra("default", Quota::per_minute(1));
    let limiter = MemoryLimiter::builder(policy).clock(ManualClock::new()).build().unwrap();
    Rule::new(limiter, key)
}

/// Sends a gRPC request through the layer.
async fn call(layer: &RateLimitLayer) -> Response<Empty<Bytes>> {
    let service = layer.layer(tower::service_fn(async |_: Request<Empty<Bytes>>| {
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

fn pushback(status: &Status) -> Option<&str> {
    status.metadata().get("grpc-retry-pushback-ms").map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_used_up_quota_is_resource_exhausted_and_names_its_policy() {
    let layer = layer(FixedKey::new("all"));
    assert_eq!(call(&layer).await.headers().get("grpc-status"), None);
    let status = status(&layer).await;
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "rate limit exceeded"));
    assert_eq!(pushback(&status), Some("60000"));
    let details = status.check_error_details().unwrap();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(60)));
    assert_eq!(details.quota_failure().unwrap().violations.first().unwrap().subject, "default");
}

#[tokio::test]
async fn a_cost_that_never_fits_is_resource_exhausted_and_asks_for_no_retry() {
    let status = status(
        &RateLimitLayer::all([rule(FixedKey::new("all")).cost(|_| Cost::of(2))])
            .answers(Answers::new().grpc()),
    )
    .await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "the request costs more than the rate limit can admit");
    assert_eq!(pushback(&status), Some("-1"));
    assert!(status.check_error_details().unwrap().retry_info().is_none());
}

#[tokio::test]
async fn a_key_that_the_client_has_not_sent_is_an_invalid_argument() {
    let key = HeaderKey::new(HeaderName::from_static("x-api-key")).assume_verified().or_reject();
    let status = status(&layer(key)).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "missing header field `x-api-key`");
    assert_eq!((pushback(&status), status.details()), (None, &[][..]));
}

#[tokio::test]
async fn a_server_without_connect_info_is_an_internal_error_whose_reason_is_for_developers() {
    let status = status(&layer(ClientIp::peer())).await;
    assert_eq!(status.code(), Code::Internal);
    // Only a debug build says to the client what to change.
    let said = status.message().strip_prefix("the rate limit is not set up").unwrap();
    assert_eq!(said.contains("into_make_service_with_connect_info"), cfg!(debug_assertions));
    assert_eq!((pushback(&status), status.details()), (None, &[][..]));
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable_for_a_second() {
    let policy = Policy::gcra("default", Quota::per_minute(1));
    let limiter = Fake::new(policy, || {
        LimiterFuture::ready(Err(Error::new(ErrorKind::Unavailable, "no connection")))
    });
    let rule = for_all(limiter).on_store_failure(OnStoreFailure::Deny);
    let status = status(&RateLimitLayer::all([rule]).answers(Answers::new().grpc())).await;
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(pushback(&status), Some("1000"));
    let details = status.check_error_details().unwrap();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
    assert!(details.quota_failure().is_none());
}

#[tokio::test]
async fn an_undisclosed_policy_is_not_in_the_details() {
    for (disclosure, wait) in
        [(Disclosure::RetryAfterOnly, Some("60000")), (Disclosure::None, None)]
    {
        let layer = RateLimitLayer::all([rule(FixedKey::new("all")).disclose(disclosure)])
            .answers(Answers::new().grpc());
        call(&layer).await;
        let status = status(&layer).await;
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(pushback(&status), wait);
        let details = status.check_error_details().unwrap();
        assert_eq!(details.retry_info().is_some(), wait.is_some());
        assert!(details.quota_failure().is_none());
    }
}

#[tokio::test]
async fn the_response_to_http_clients_is_not_sent_to_grpc_clients() {
    let answers = Answers::new().grpc().refuse_with(|_| Response::new("refused".into()));
    let layer = layer(FixedKey::new("all")).answers(answers);
    call(&layer).await;
    assert_eq!(status(&layer).await.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_refusal_is_unavailable_by_choice() {
    let layer =
        layer(FixedKey::new("all")).answers(Answers::new().grpc_status(GrpcStatus::Unavailable));
    let _ = call(&layer).await;
    let status = status(&layer).await;
    assert_eq!((status.code(), pushback(&status)), (Code::Unavailable, Some("60000")));
}
