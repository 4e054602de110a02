//! Responses to gRPC and gRPC-Web requests that do not reach their service.
//!
//! A gRPC client reads the outcome of a call from `grpc-status`, and reports any HTTP status but 200
//! as an error of the transport. So a refusal is a [trailers-only] response: HTTP 200, the status in
//! the header fields, and no body. [gRPC-Web] clients accept the same.
//!
//! Two fields carry the wait, because clients differ in which one they obey:
//! `grpc-retry-pushback-ms` is for the retry policies of gRPC's own libraries ([gRFC A6]), and
//! [`RetryInfo`] in `grpc-status-details-bin` for clients of Google's APIs and of OpenTelemetry,
//! which [retries] a refusal by quota only if it is there.
//!
//! [trailers-only]: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
//! [gRPC-Web]: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
//! [gRFC A6]: https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
//! [`RetryInfo`]: https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
//! [retries]: https://opentelemetry.io/docs/specs/otlp/#failures

mod protobuf;
#[cfg(test)]
mod tests;

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use self::protobuf::Message;
use super::protocol::Protocol;
use crate::key::Head;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The fields that a gRPC-Web client in a browser reads.
pub(super) const FIELDS: [HeaderName; 4] = [GRPC_STATUS, GRPC_MESSAGE, PUSHBACK, DETAILS];

/// The bytes that `grpc-message` encodes: all but 0x20 to 0x24 and 0x26 to 0x7E.
const MESSAGE_ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The most seconds of a `google.protobuf.Duration`: about 10,000 years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// The status of a call that ends before it reaches its service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status<'a> {
    /// The outcome.
    pub(crate) code: Code,
    /// The text for developers, of any characters.
    pub(crate) message: &'a str,
    /// When the client may try again.
    pub(crate) retry: Retry,
    /// The policies that refused the call, as far as the client may know them.
    pub(crate) violations: &'a [Violation<'a>],
}

/// A [status code](https://grpc.github.io/grpc/core/md_doc_statuscodes.html) of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The request is at fault, such as one without its key.
    InvalidArgument = 3,
    /// A quota is used up.
    ResourceExhausted = 8,
    /// The server is at fault, such as one that is set up wrongly.
    Internal = 13,
    /// The server can't decide now, such as while its store is down.
    Unavailable = 14,
}

/// When a client may send the same call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After this wait.
    After(Duration),
    /// Never, because the call costs more than the quota can ever admit.
    Never,
    /// The client decides.
    Unspecified,
}

/// A quota that a call has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation<'a> {
    /// The name of the policy.
    pub(crate) subject: &'a str,
    /// The text for developers, such as the quota.
    pub(crate) description: &'a str,
}

impl Status<'_> {
    /// Returns the response to a gRPC or gRPC-Web request.
    ///
    /// The content type is `application/grpc`, or that of a gRPC-Web request.
    pub(crate) fn respond_to(&self, request: Head<'_>) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type(request));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        let message = utf8_percent_encode(self.message, MESSAGE_ENCODED).to_string();
        insert_text(headers, GRPC_MESSAGE, message);
        if let Some(pushback) = self.retry.pushback() {
            headers.insert(PUSHBACK, HeaderValue::from(pushback));
        }
        if let Some(details) = self.details() {
            // Values of fields in `-bin` are base64 of the standard alphabet, unpadded.
            insert_text(headers, DETAILS, STANDARD_NO_PAD.encode(details.as_bytes()));
        }
        response
    }

    /// Returns the `google.rpc.Status`, or `None` if it would only repeat the code and the message.
    fn details(&self) -> Option<Message> {
        let retry = self.retry.info();
        let quota = (!self.violations.is_empty()).then(|| quota_failure(self.violations));
        if retry.is_none() && quota.is_none() {
            return None;
        }
        let status = Message::default().integer(1, self.code as u64).string(2, self.message);
        Some([retry, quota].iter().flatten().fold(status, |status, any| status.message(3, any)))
    }
}

impl Retry {
    /// Returns the milliseconds until the client may retry, rounded up, or -1 for "do not retry".
    ///
    /// The field is a signed integer of 32 bits, so a wait of more than 24 days is -1 too: a retry
    /// at the highest value would be refused.
    fn pushback(self) -> Option<i32> {
        match self {
            Self::After(wait) => {
                let milliseconds = wait.as_nanos().div_ceil(1_000_000);
                Some(i32::try_from(milliseconds).unwrap_or(-1))
            }
            Self::Never => Some(-1),
            Self::Unspecified => None,
        }
    }

    /// Returns a `google.rpc.RetryInfo` as an `Any`.
    fn info(self) -> Option<Message> {
        let Self::After(wait) = self else { return None };
        let wait = wait.min(Duration::from_secs(MAX_SECONDS));
        let delay =
            Message::default().integer(1, wait.as_secs()).integer(2, wait.subsec_nanos().into());
        let info = Message::default().message(1, &delay);
        Some(any("type.googleapis.com/google.rpc.RetryInfo", &info))
    }
}

/// Returns a `google.rpc.QuotaFailure` as an `Any`.
fn quota_failure(violations: &[Violation<'_>]) -> Message {
    let failure = violations.iter().fold(Message::default(), |failure, violation| {
        let Violation { subject, description } = violation;
        failure.message(1, &Message::default().string(1, subject).string(2, description))
    });
    any("type.googleapis.com/google.rpc.QuotaFailure", &failure)
}

/// Returns a `google.protobuf.Any`.
fn any(type_url: &str, message: &Message) -> Message {
    Message::default().string(1, type_url).message(2, message)
}

fn content_type(request: Head<'_>) -> HeaderValue {
    match (Protocol::of(request), request.headers.get(CONTENT_TYPE)) {
        (Protocol::GrpcWeb, Some(content_type)) => content_type.clone(),
        _ => HeaderValue::from_static("application/grpc"),
    }
}

/// Inserts printable ASCII; both encodings produce nothing else.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}
