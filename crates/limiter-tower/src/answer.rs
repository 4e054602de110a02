//! What clients receive: header fields on the inner response, or a response in its place.

mod dialect;
mod grpc;
mod http;
mod mark;
mod protocol;
mod refusal;

use std::{fmt, iter, sync::Arc};

use ::http::{
    Extensions, HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, RETRY_AFTER},
};
use bytes::Bytes;

pub(crate) use self::{
    dialect::ResponseFields,
    mark::{is_of_layer, is_watched, watch},
};
pub use self::{
    dialect::{Headers, Reset},
    http::{problem_json, text},
    refusal::{Reason, Refusal, Refused},
};
use self::{
    grpc::{Code, Retry, Status, Violation},
    http::text_of_quota,
    mark::mark_if_watched,
    protocol::Protocol,
};
use crate::{
    decisions::{Decided, Decisions, PolicyDecision},
    fields::{integer, whole_seconds},
    key::Head,
};

/// Returns the response to a request that an HTTP client sent.
type RefuseFn = Arc<dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync>;

/// How layers answer: a value that [`RateLimitLayer`](crate::RateLimitLayer) and
/// [`InFlightLayer`](crate::InFlightLayer) take.
///
/// ```
/// use limiter_tower::{Answers, ClientIp, RateLimitLayer, headers::Headers, refusal::problem_json};
/// # use limiter_tower::{MemoryLimiter, Policy, Quota};
/// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(1)));
///
/// let answers = Answers::new().headers(Headers::RateLimitReset).grpc().refuse_with(problem_json);
/// let layer = RateLimitLayer::new(limiter, ClientIp::peer()).answers(answers.clone());
/// ```
#[derive(Clone, Default)]
pub struct Answers {
    /// `None` is [`text`].
    refuse: Option<RefuseFn>,
    pub(crate) headers: Headers,
    /// The status of calls that a limit refuses. `None` if gRPC's content type means nothing to the service.
    grpc: Option<Code>,
}

impl Answers {
    /// Returns the default: [`text`] for requests that are not admitted, the fields of [`Headers::RateLimit`], and HTTP for
    /// all clients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the response to requests that are not admitted, for HTTP clients. The default is [`text`]; another one is
    /// [`problem_json`].
    ///
    /// The layer adds `Cache-Control: no-store` and `Retry-After`, unless the response has them, and the fields of
    /// [`headers`](Self::headers).
    ///
    /// ```
    /// use limiter_tower::Answers;
    ///
    /// let answers = Answers::new().refuse_with(|refusal| {
    ///     let mut response = http::Response::new("slow down\n".into());
    ///     *response.status_mut() = refusal.status();
    ///     response
    /// });
    /// ```
    #[must_use]
    pub fn refuse_with(
        self,
        refuse: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self { refuse: Some(Arc::new(refuse)), ..self }
    }

    /// Sets which header fields report the decisions.
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    /// Answers requests of gRPC and gRPC-Web clients, by their content type, with a gRPC status.
    ///
    /// Without it all refusals are HTTP, because any client can send gRPC's content type, and a refusal by gRPC has the
    /// HTTP status 200, which firewalls and access logs take for a success.
    #[must_use]
    pub fn grpc(self) -> Self {
        Self { grpc: Some(Code::ResourceExhausted), ..self }
    }

    /// As [`grpc`](Self::grpc), with the status `UNAVAILABLE` (14) and not `RESOURCE_EXHAUSTED` (8) for calls that a limit
    /// refuses: for clients whose retry policy covers no other.
    #[must_use]
    pub fn grpc_unavailable(self) -> Self {
        Self { grpc: Some(Code::Unavailable), ..self }
    }

    /// Returns the response to a request that is not admitted, as a layer with these answers sends it: for a rule that a
    /// handler asks.
    ///
    /// ```
    /// use http::request::Parts;
    /// use limiter_tower::{Answers, Rule};
    ///
    /// async fn search(rule: &Rule, answers: &Answers, parts: &Parts) -> http::Response<bytes::Bytes> {
    ///     match rule.ask(parts).await {
    ///         Ok(_) => http::Response::new("found\n".into()),
    ///         Err(refused) => answers.respond(parts, &refused),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn respond<'r>(&self, head: impl Into<Head<'r>>, refused: &Refused) -> Response<Bytes> {
        let head = head.into();
        let refusal = Refusal::new(head, refused);
        if let Some(code) = self.grpc
            && refusal.protocol() != Protocol::Http
        {
            let mut response = grpc_response(code, &refusal);
            mark_if_watched(head, &mut response);
            return response;
        }
        let mut response = match &self.refuse {
            Some(refuse) => refuse(&refusal),
            None => text(&refusal),
        };
        add_common_fields(refusal.retry_after_seconds(), response.headers_mut());
        let reported = refused.decisions().filter_map(PolicyDecision::reported);
        if let Some(fields) = self.headers.fields(reported, refused.in_flight()) {
            fields.append_to(response.headers_mut(), false);
        }
        mark_if_watched(head, &mut response);
        response
    }

    /// Returns the response to a request that an enforced rule refuses, whose key is not blocked. Spares the common case the
    /// copies that [`Refused`] has.
    pub(crate) fn refuse_by(&self, refusing: Decided<'_>, head: Head<'_>) -> Response<Bytes> {
        let is_text = self.refuse.is_none() && self.grpc.is_none();
        if is_text
            && let Some(reported) = refusing.reported()
            && let Some(wait) = refusing.decision.retry_after()
        {
            let mut response = text_of_quota();
            add_common_fields(Some(whole_seconds(wait)), response.headers_mut());
            if let Some(fields) = self.headers.fields(iter::once(reported), iter::empty()) {
                fields.append_to(response.headers_mut(), false);
            }
            mark_if_watched(head, &mut response);
            return response;
        }
        self.respond(head, &Refused::by(refusing))
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refuse: _, headers, grpc } = self;
        let mut debug = f.debug_struct("Answers");
        debug.field("headers", headers).field("grpc", grpc).finish_non_exhaustive()
    }
}

/// Adds the fields that each refusal has, unless it has them.
fn add_common_fields(retry_after: Option<u64>, headers: &mut HeaderMap) {
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(seconds) = retry_after {
        headers.entry(RETRY_AFTER).or_insert_with(|| integer(seconds));
    }
}

/// Adds the decisions to those of another layer.
pub(crate) fn insert(decisions: Decisions, extensions: &mut Extensions) {
    match extensions.get_mut::<Decisions>() {
        Some(others) => others.append(&decisions),
        None => {
            extensions.insert(decisions);
        }
    }
}

/// The status that a layer with [`Answers::grpc`] sends.
#[cfg(feature = "tonic")]
impl From<Refused> for tonic::Status {
    fn from(refused: Refused) -> Self {
        let refusal = Refusal::new(Head::empty(), &refused);
        let response = grpc_response(Code::ResourceExhausted, &refusal);
        Self::from_header_map(response.headers())
            .unwrap_or_else(|| Self::resource_exhausted(refusal.message()))
    }
}

/// Returns the response to a request of a gRPC client.
fn grpc_response(refused: Code, refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = match (refusal.reason(), refusal.status()) {
        (Reason::Quota(_), _) | (Reason::InFlight(_), StatusCode::TOO_MANY_REQUESTS) => refused,
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
