//! What clients receive: header fields on the inner response, or a response in its place.

pub(crate) mod body;
mod dialect;
pub(crate) mod fields;
mod grpc;
mod http;
mod protocol;
mod refusal;

use std::sync::Arc;

use ::http::{
    Extensions, HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, RETRY_AFTER},
};
use bytes::Bytes;

pub(crate) use self::dialect::{Reported, ResponseFields};
pub use self::{
    dialect::{Headers, Reset},
    http::{problem_json, text},
    protocol::Protocol,
    refusal::{Reason, Refusal},
};
use self::{
    fields::integer,
    grpc::{Code, Retry, Status, Violation},
};
use crate::{
    config::Config,
    observe::Decisions,
    rule::{Disclosure, Rule},
};

/// Returns the response to a request that an HTTP client sent.
pub(crate) type RefuseFn = Arc<dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync>;

/// The status that a gRPC client receives when a limit refuses its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrpcStatus {
    /// `RESOURCE_EXHAUSTED` (8). The default.
    #[default]
    ResourceExhausted,
    /// `UNAVAILABLE` (14), for clients whose retry policy covers no other.
    Unavailable,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'r> {
    /// The status code. A gRPC service reports errors in `grpc-status` instead.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// What the inner service has added.
    pub extensions: &'r Extensions,
}

impl<'r, B> From<&'r Response<B>> for ResponseHead<'r> {
    fn from(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}

/// Returns the response to a request that is not admitted.
pub(crate) fn respond(config: &Config, rule: &Rule, refusal: &Refusal<'_>) -> Response<Bytes> {
    let mut response = match refusal.protocol() {
        Protocol::Http => (config.refuse)(refusal),
        Protocol::Grpc | Protocol::GrpcWeb => {
            return grpc_response(config.grpc_status, refusal, rule.disclosure);
        }
    };
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let (Some(seconds), true) =
        (refusal.retry_after_seconds(), rule.disclosure != Disclosure::None)
    {
        headers.entry(RETRY_AFTER).or_insert_with(|| integer(seconds));
    }
    if let Reason::Quota(decided) = refusal.reason()
        && let Some(fields) = config.headers.fields(decided.reported().into_iter())
    {
        fields.append_to(headers);
    }
    response
}

/// Adds the decisions to those of another layer.
pub(crate) fn insert(decisions: Decisions, extensions: &mut Extensions) {
    match extensions.get_mut::<Decisions>() {
        Some(others) => others.append(decisions),
        None => {
            extensions.insert(decisions);
        }
    }
}

/// Returns the response to a request of a gRPC client.
fn grpc_response(
    status: GrpcStatus,
    refusal: &Refusal<'_>,
    disclosure: Disclosure,
) -> Response<Bytes> {
    let code = match (refusal.reason(), refusal.status()) {
        (Reason::Quota(_), _) => match status {
            GrpcStatus::ResourceExhausted => Code::ResourceExhausted,
            GrpcStatus::Unavailable => Code::Unavailable,
        },
        (Reason::Unavailable, _) => Code::Unavailable,
        (Reason::Rejected(_), StatusCode::BAD_REQUEST) => Code::InvalidArgument,
        (Reason::Misconfigured | Reason::Rejected(_), _) => Code::Internal,
    };
    let retry = match (disclosure, refusal.reason(), refusal.retry_after()) {
        (Disclosure::None, ..) | (_, Reason::Misconfigured | Reason::Rejected(_), _) => {
            Retry::Unspecified
        }
        (_, _, Some(wait)) => Retry::After(wait),
        (_, _, None) => Retry::Never,
    };
    let message = refusal.message();
    let quota = refusal.limit().map(|limit| limit.quota().to_string());
    let violation = quota.as_deref().filter(|_| disclosure == Disclosure::Full);
    let violation =
        violation.map(|description| Violation { subject: refusal.policy().name(), description });
    Status { code, message: &message, retry, violation }.respond_to(refusal.head())
}
