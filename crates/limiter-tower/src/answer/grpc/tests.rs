//! The responses, as `tonic` and `tonic-types` read them.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
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

fn respond(status: &Status<'_>) -> Response<Bytes> {
    let request = Request::post("/").header(CONTENT_TYPE, "application/grpc");
    let request = request.body(()).expect("a content type");
    status.respond_to(Head::from(&request))
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
        // Too long, so it asks for no retry.
        (Duration::from_millis(1 << 31), "-1"),
        (Duration::MAX, "-1"),
    ] {
        let response = respond(&Status { retry: Retry::After(wait), ..EXCEEDED });
        let pushback = field(&response, "grpc-retry-pushback-ms");
        assert_eq!(pushback.as_deref(), Some(expected), "{wait:?}");
    }
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
