//! Bodies of refusals for HTTP clients.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

#[cfg(feature = "axum")]
use super::Refused;
use super::{Reason, Refusal, refusal::QUOTA};

/// Returns a refusal as plain text. The default.
#[must_use]
pub fn text(refusal: &Refusal<'_>) -> Response<Bytes> {
    match refusal.message() {
        Cow::Borrowed(QUOTA) if refusal.status() == StatusCode::TOO_MANY_REQUESTS => {
            text_of_quota()
        }
        message => response(refusal.status(), TEXT, format!("{message}\n").into()),
    }
}

/// Returns the refusal by a quota as plain text.
pub(super) fn text_of_quota() -> Response<Bytes> {
    let body = Bytes::from_static(b"rate limit exceeded\n");
    response(StatusCode::TOO_MANY_REQUESTS, TEXT, body)
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Returns a refusal as problem details ([RFC 9457]), with the problem types of
/// [draft-ietf-httpapi-ratelimit-headers-11].
///
/// `retry-after` is the same number of seconds as in the header field; `detail` is there if a retry
/// can't help or its time is not known; `violated-policies` names each limit that refused and whose
/// [disclosure](crate::rule::Disclosure) is full:
///
/// ```json
/// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
///  "title":"Quota Exceeded","status":429,"retry-after":2,"violated-policies":["api"]}
/// ```
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{Answers, ClientIp, RateLimitLayer, refusal::problem_json};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
/// let answers = Answers::new().refuse_with(problem_json);
/// let layer = RateLimitLayer::new(limiter, ClientIp::peer()).answers(answers);
/// ```
///
/// [RFC 9457]: https://www.rfc-editor.org/rfc/rfc9457
/// [draft-ietf-httpapi-ratelimit-headers-11]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/11/
#[must_use]
pub fn problem_json(refusal: &Refusal<'_>) -> Response<Bytes> {
    const TYPES: &str = "https://iana.org/assignments/http-problem-types#";
    const QUOTA_EXCEEDED: (&str, &str) = ("quota-exceeded", "Quota Exceeded");
    let status = refusal.status().as_u16();
    let (name, title) = match refusal.reason() {
        Reason::Quota(_) if refusal.is_blocked() => {
            ("abnormal-usage-detected", "Abnormal Usage Detected")
        }
        Reason::InFlight(_) if refusal.status() == StatusCode::TOO_MANY_REQUESTS => QUOTA_EXCEEDED,
        Reason::Quota(_) => QUOTA_EXCEEDED,
        Reason::Unavailable | Reason::InFlight(_) | Reason::PermitLost => {
            ("temporary-reduced-capacity", "Temporary Reduced Capacity")
        }
        Reason::Misconfigured | Reason::Rejected(_) => {
            ("", refusal.status().canonical_reason().unwrap_or_default())
        }
    };
    let mut body = String::from("{");
    if !name.is_empty() {
        body += &format!("\"type\":\"{TYPES}{name}\",");
    }
    body += &format!("\"title\":{},\"status\":{status}", json_string(title));
    if let Some(seconds) = refusal.retry_after_seconds() {
        body += &format!(",\"retry-after\":{seconds}");
    } else if refusal.never_fits()
        || !matches!(refusal.reason(), Reason::Quota(_)) && !refusal.is_hidden()
    {
        body += &format!(",\"detail\":{}", json_string(&refusal.message()));
    }
    // The limit that refused has the name of its member in `RateLimit`.
    let violated =
        refusal.public().filter_map(|decided| Some(json_string(decided.limit()?.name())));
    let in_flight = refusal.in_flight().filter(|it| it.is_public());
    let violated: Vec<String> =
        violated.chain(in_flight.map(|it| json_string(it.rule()))).collect();
    if !violated.is_empty() {
        body += &format!(",\"violated-policies\":[{}]", violated.join(","));
    }
    body.push('}');
    response(refusal.status(), "application/problem+json", body.into())
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        let mut response = super::Answers::new().respond(crate::key::Head::empty(), &self);
        // The request is not at hand, which says whether an outer layer asks for it.
        super::mark::mark(&mut response);
        response.map(axum::body::Body::from)
    }
}

fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns `text` as a string of JSON (RFC 8259, section 7).
fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => json += &format!("\\u{:04x}", u32::from(control)),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}
