//! What clients receive: header fields on the inner response, or a response in its place.

mod dialect;
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

pub(crate) use self::dialect::ResponseFields;
use self::grpc::{Code, Retry, Status, Violation};
pub use self::{
    dialect::{Headers, Reset},
    http::{problem_json, text},
    protocol::Protocol,
    refusal::{Reason, Refusal, Refused},
};
use crate::{
    decisions::{Decisions, PolicyDecision},
    fields::integer,
    key::Head,
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

/// How a layer answers.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) refuse: RefuseFn,
    pub(crate) headers: Headers,
    /// `None` if gRPC's content type means nothing to the service.
    pub(crate) grpc: Option<GrpcStatus>,
}

impl Default for Answers {
    fn default() -> Self {
        Self { refuse: Arc::new(text), headers: Headers::default(), grpc: None }
    }
}

impl Answers {
    /// Returns the response to a request that is not admitted.
    pub(crate) fn refuse(&self, head: Head<'_>, refused: &Refused) -> Response<Bytes> {
        let refusal = Refusal::new(head, refused);
        if let Some(status) = self.grpc
            && refusal.protocol() != Protocol::Http
        {
            return grpc_response(status, &refusal);
        }
        let mut response = (self.refuse)(&refusal);
        add_common_fields(&refusal, response.headers_mut());
        let reported = refused.decisions().filter_map(PolicyDecision::reported);
        if let Some(fields) = self.headers.fields(reported, refused.in_flight()) {
            fields.append_to(response.headers_mut());
        }
        response
    }
}

/// Adds the fields that each refusal has, unless it has them.
fn add_common_fields(refusal: &Refusal<'_>, headers: &mut HeaderMap) {
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(seconds) = refusal.retry_after_seconds() {
        headers.entry(RETRY_AFTER).or_insert_with(|| integer(seconds));
    }
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
fn grpc_response(status: GrpcStatus, refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = match (refusal.reason(), refusal.status()) {
        (Reason::Quota(_), _) | (Reason::InFlight(_), StatusCode::TOO_MANY_REQUESTS) => {
            match status {
                GrpcStatus::ResourceExhausted => Code::ResourceExhausted,
                GrpcStatus::Unavailable => Code::Unavailable,
            }
        }
        (Reason::Unavailable | Reason::InFlight(_) | Reason::PermitLost, _) => Code::Unavailable,
        (Reason::Rejected(_), StatusCode::BAD_REQUEST) => Code::InvalidArgument,
        (Reason::Misconfigured | Reason::Rejected(_), _) => Code::Internal,
    };
    let retry = match refusal.retry_after() {
        Some(wait) => Retry::After(wait),
        None if refusal.never_fits() => Retry::Never,
        None => Retry::Unspecified,
    };
    let violation = |decided: &'_ PolicyDecision| {
        let description = decided.limit()?.quota().to_string();
        Some((decided.policy().name().to_owned(), description))
    };
    let in_flight = refusal.in_flight().filter(|it| it.is_public());
    let in_flight = in_flight
        .map(|it| (it.rule().to_owned(), format!("{} requests in flight", it.occupancy().limit())));
    let violations: Vec<_> = refusal.public().filter_map(violation).chain(in_flight).collect();
    let violations: Vec<_> = violations
        .iter()
        .map(|(subject, description)| Violation { subject, description })
        .collect();
    let message = refusal.message();
    Status { code, message: &message, retry, violations: &violations }.respond_to(refusal.head())
}
