//! The responses, as `tonic` and `tonic-types` read them.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use proptest::prelude::*;
use tonic_types::{ErrorDetails, StatusExt};

use super::{Code, MAX_SECONDS, Retry, Status, Violation};
use crate::key::Head;

const EXCEEDED: Status<'_> = Status {
    code: Code::ResourceExhausted,
    message: "rate limit exceeded",
    retry: Retry::After(Duration::from_millis(1500)),
    violations: &[],
};

const GOLDEN: &str = "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBj\
                      LlJldHJ5SW5mbxIKCggIARCAyrXuAQ";

fn respond_to(status: &Status<'_>, content_type: &'static str) -> Response<Bytes> {
    let request = Request::post("/").header(CONTENT_TYPE, content_type);
    let request = request.body(()).expect("a content type");
    status.respond_to(Head::from(&request))
}

fn respond(status: &Status<'_>) -> Response<Bytes> {
    respond_to(status, "application/grpc")
}

/// Returns the only value of a field.
fn field(response: &Response<Bytes>, name: &str) -> Option<String> {
    let mut values = response.headers().get_all(name).iter();
    let value = values.next().map(|value| value.to_str().expect("ASCII").to_owned());
    assert_eq!(values.next(), None, "{name} has one value");
    value
}

/// Returns the status that a tonic client reads from a response.
fn read(response: &Response<Bytes>) -> tonic::Status {
    tonic::Status::from_header_map(response.headers()).expect("a status")
}

fn pushback(retry: Retry) -> Option<String> {
    field(&respond(&Status { retry, ..EXCEEDED }), "grpc-retry-pushback-ms")
}

#[test]
fn details_are_those_of_the_golden_vector() {
    let details = field(&respond(&EXCEEDED), "grpc-status-details-bin");
    assert_eq!(details.as_deref(), Some(GOLDEN));
}

#[test]
fn tonic_types_encodes_the_golden_vector_too() {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1500)));
    let status = tonic::Status::with_error_details(
        tonic::Code::ResourceExhausted,
        "rate limit exceeded",
        details,
    );
    let headers = status.into_http::<tonic::body::Body>().into_parts().0.headers;
    assert_eq!(headers.get("grpc-status-details-bin").expect("details"), GOLDEN);
}

#[test]
fn a_grpc_response_is_trailers_only() {
    let response = respond(&EXCEEDED);
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.body().is_empty());
    let fields = ["content-type", "grpc-status", "grpc-message", "grpc-retry-pushback-ms"];
    assert_eq!(
        fields.map(|name| field(&response, name).expect("a value")),
        ["application/grpc", "8", "rate limit exceeded", "1500"]
    );
}

#[test]
fn a_grpc_response_drops_the_requests_message_format() {
    let response = respond_to(&EXCEEDED, "application/grpc+proto");
    assert_eq!(field(&response, "content-type").as_deref(), Some("application/grpc"));
}

#[test]
fn a_grpc_web_response_repeats_the_requests_content_type() {
    for content_type in ["application/grpc-web+proto", "application/grpc-web-text; charset=utf-8"] {
        let response = respond_to(&EXCEEDED, content_type);
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.body().is_empty());
        assert_eq!(field(&response, "content-type").as_deref(), Some(content_type));
        assert_eq!(field(&response, "grpc-status").as_deref(), Some("8"));
    }
}

#[test]
fn codes_are_those_of_grpc() {
    for (code, expected) in [
        (Code::InvalidArgument, tonic::Code::InvalidArgument),
        (Code::ResourceExhausted, tonic::Code::ResourceExhausted),
        (Code::Internal, tonic::Code::Internal),
        (Code::Unavailable, tonic::Code::Unavailable),
    ] {
        assert_eq!(read(&respond(&Status { code, ..EXCEEDED })).code(), expected);
    }
}

#[test]
fn the_message_is_percent_encoded() {
    for (message, encoded) in [
        ("", ""),
        ("rate limit exceeded", "rate limit exceeded"),
        ("~ 100% \"of\" #1", "~ 100%25 \"of\" #1"),
        ("a\r\ngrpc-status: 0", "a%0D%0Agrpc-status: 0"),
        ("für 10 €\u{7f}", "f%C3%BCr 10 %E2%82%AC%7F"),
    ] {
        let response = respond(&Status { message, ..EXCEEDED });
        assert_eq!(field(&response, "grpc-message").as_deref(), Some(encoded));
    }
}

#[test]
fn pushback_is_rounded_up_to_whole_milliseconds() {
    for (wait, expected) in [
        (Duration::ZERO, "0"),
        (Duration::from_nanos(1), "1"),
        (Duration::from_millis(7), "7"),
        (Duration::from_nanos(7_000_001), "8"),
        (Duration::from_millis(i32::MAX as u64), "2147483647"),
    ] {
        assert_eq!(pushback(Retry::After(wait)).as_deref(), Some(expected), "{wait:?}");
    }
}

#[test]
fn a_wait_too_long_for_the_pushback_asks_for_no_retry() {
    for wait in [Duration::from_millis(1 << 31), Duration::MAX] {
        assert_eq!(pushback(Retry::After(wait)).as_deref(), Some("-1"), "{wait:?}");
    }
}

#[test]
fn a_cost_that_never_fits_asks_for_no_retry() {
    let violations = &[Violation { subject: "default", description: "10 per minute" }];
    let response = respond(&Status { retry: Retry::Never, violations, ..EXCEEDED });
    assert_eq!(field(&response, "grpc-retry-pushback-ms").as_deref(), Some("-1"));
    let details = read(&response).check_error_details().expect("details");
    assert!(details.retry_info().is_none());
    assert!(details.quota_failure().is_some());
}

#[test]
fn details_that_only_repeat_the_status_are_left_out() {
    let response = respond(&Status { retry: Retry::Unspecified, ..EXCEEDED });
    assert_eq!(field(&response, "grpc-retry-pushback-ms"), None);
    assert_eq!(field(&response, "grpc-status-details-bin"), None);
}

fn retry() -> impl Strategy<Value = Retry> {
    prop_oneof![
        any::<Duration>().prop_map(Retry::After),
        (0..1_000_000_u64).prop_map(|wait| Retry::After(Duration::from_micros(wait))),
        Just(Retry::Never),
        Just(Retry::Unspecified),
    ]
}

/// Returns subjects and descriptions of quotas that were exceeded.
fn quotas() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(any::<(String, String)>(), 0..4)
}

fn violations(quotas: &[(String, String)]) -> Vec<Violation<'_>> {
    quotas.iter().map(|(subject, description)| Violation { subject, description }).collect()
}

proptest! {
    #[test]
    fn tonic_reads_what_was_written(
        message in any::<String>(),
        retry in retry(),
        quotas in quotas(),
    ) {
        let violations = &violations(&quotas);
        let response = respond(&Status { message: &message, retry, violations, ..EXCEEDED });
        let status = read(&response);
        prop_assert_eq!(status.message(), message.as_str());
        let details = status.check_error_details().expect("details");

        let delay = details.retry_info().and_then(|info| info.retry_delay);
        let expected = match retry {
            Retry::After(wait) => Some(wait.min(Duration::from_secs(MAX_SECONDS))),
            _ => None,
        };
        prop_assert_eq!(delay, expected);

        let violations = details.quota_failure().map(|failure| failure.violations.clone());
        let violations = violations.into_iter().flatten().map(|one| (one.subject, one.description));
        prop_assert!(violations.eq(quotas));
    }

    #[test]
    fn details_equal_those_of_tonic_types(
        message in any::<String>(),
        wait in (0..=MAX_SECONDS, 0..1_000_000_000_u32),
        quotas in quotas(),
    ) {
        let wait = Duration::new(wait.0, wait.1).min(Duration::from_secs(MAX_SECONDS));
        let (retry, violations) = (Retry::After(wait), &violations(&quotas));
        let ours = read(&respond(&Status { message: &message, retry, violations, ..EXCEEDED }));

        let mut details = ErrorDetails::with_retry_info(Some(wait));
        for (subject, description) in quotas {
            details.add_quota_failure_violation(subject, description);
        }
        let code = tonic::Code::ResourceExhausted;
        let theirs = tonic::Status::with_error_details(code, message.clone(), details);
        prop_assert_eq!(ours.details(), theirs.details());
    }
}
