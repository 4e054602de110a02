//! Which header fields report the decisions.

use std::{
    cmp::Reverse,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use limiter_core::{Cost, Decision};

use super::fields::{MAX_INTEGER, integer, whole_seconds};
use crate::Plan;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The header fields that a CORS layer has to list in `Access-Control-Expose-Headers`, so that a page
/// from another origin can read them.
///
/// They are those of the default, [`Headers::RateLimit`]. [`Headers::exposed`] returns those of
/// another choice.
pub const EXPOSED_HEADERS: [HeaderName; 3] = [RETRY_AFTER, RATELIMIT_POLICY, RATELIMIT];

static EXPOSED: [HeaderName; 3] = EXPOSED_HEADERS;

/// The field names of [`Headers::RateLimitReset`], as statics because a name in text would be parsed
/// and allocated with each response.
static RESET_FIELDS: [HeaderName; 4] = [
    RETRY_AFTER,
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// Those of [`Headers::XRateLimit`].
static X_FIELDS: [HeaderName; 4] = [
    RETRY_AFTER,
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Which header fields report quotas and what remains of them.
///
/// `Retry-After` does not depend on this choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit-Policy` and `RateLimit`, with a member for each policy. The default, with
    /// [`Draft::V11`].
    RateLimit(Draft),
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, in seconds from now, as
    /// draft-ietf-httpapi-ratelimit-headers-03 to 06 define them. They report the most restrictive
    /// decision.
    ///
    /// The reset is when all permits have recovered, or after a refusal when to retry. A cost that
    /// never fits has none.
    RateLimitReset,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which report the most
    /// restrictive decision as [`RateLimitReset`](Self::RateLimitReset) does.
    XRateLimit(Reset),
    /// None.
    None,
}

impl Default for Headers {
    fn default() -> Self {
        Self::RateLimit(Draft::V11)
    }
}

/// A version of draft-ietf-httpapi-ratelimit-headers with structured fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Draft {
    /// Version 11, of May 2026.
    V11,
}

/// The names of a draft's parameters between `;` and `=`, as a member has them before each value.
pub(super) struct Parameters {
    pub(super) quota: &'static str,
    pub(super) window: &'static str,
    /// Not in any draft: the burst, where it differs from the quota.
    pub(super) burst: &'static str,
    pub(super) remaining: &'static str,
    pub(super) time: &'static str,
}

impl Draft {
    pub(super) const ALL: [Self; 1] = [Self::V11];

    pub(super) const fn parameters(self) -> Parameters {
        match self {
            Self::V11 => Parameters {
                quota: ";q=",
                window: ";w=",
                burst: ";limiter-burst=",
                remaining: ";r=",
                time: ";t=",
            },
        }
    }
}

/// What `X-RateLimit-Reset` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now, as Envoy and most others.
    Delta,
    /// Seconds since the Unix epoch, as GitHub.
    Epoch,
}

impl Headers {
    /// Returns the names of these fields and `Retry-After`, which a CORS layer has to expose: see
    /// [`EXPOSED_HEADERS`].
    #[must_use]
    pub fn exposed(self) -> &'static [HeaderName] {
        match self {
            Self::RateLimit(Draft::V11) => &EXPOSED,
            Self::RateLimitReset => &RESET_FIELDS,
            Self::XRateLimit(_) => &X_FIELDS,
            Self::None => EXPOSED.split_at(1).0,
        }
    }

    /// Returns the fields of these decisions.
    pub(crate) fn fields<'d>(
        self,
        reported: impl Iterator<Item = Reported<'d>> + Clone,
    ) -> Option<ResponseFields> {
        match self {
            Self::RateLimit(draft) => lists(draft, reported),
            Self::RateLimitReset => strictest(&RESET_FIELDS, Reset::Delta, reported),
            Self::XRateLimit(reset) => strictest(&X_FIELDS, reset, reported),
            Self::None => None,
        }
    }
}

/// A decision that header fields report.
#[derive(Clone, Copy)]
pub(crate) struct Reported<'d> {
    pub(crate) plan: &'d Plan,
    pub(crate) decision: &'d Decision,
    pub(crate) cost: Cost,
}

/// The fields that a response gets.
pub(crate) enum ResponseFields {
    /// Lists with a member for each policy.
    Lists { policies: HeaderValue, members: HeaderValue },
    /// Single values, of the most restrictive decision.
    Strictest {
        names: &'static [HeaderName; 4],
        limit: u64,
        remaining: u64,
        /// `None` if the cost never fits.
        reset: Option<u64>,
    },
}

impl ResponseFields {
    /// Adds the fields to those of inner layers.
    pub(crate) fn append_to(self, headers: &mut HeaderMap) {
        match self {
            Self::Lists { policies, members } => {
                headers.append(RATELIMIT_POLICY, policies);
                headers.append(RATELIMIT, members);
            }
            Self::Strictest { names, limit, remaining, reset } => {
                if is_stricter(names, headers, remaining, reset) {
                    let [_, limit_field, remaining_field, reset_field] = names;
                    headers.insert(limit_field, integer(limit));
                    headers.insert(remaining_field, integer(remaining));
                    match reset {
                        Some(reset) => headers.insert(reset_field, integer(reset)),
                        None => headers.remove(reset_field),
                    };
                }
            }
        }
    }
}

fn lists<'d>(
    draft: Draft,
    reported: impl Iterator<Item = Reported<'d>> + Clone,
) -> Option<ResponseFields> {
    let policies = list(reported.clone().map(|it| it.plan.fields().policy(draft, it.decision)))?;
    let member = |it: Reported<'_>| it.plan.fields().member(draft, it.decision, it.cost);
    let members = list(reported.filter_map(member))?;
    Some(ResponseFields::Lists { policies, members })
}

/// Joins the members of a list.
fn list(mut members: impl Iterator<Item = HeaderValue>) -> Option<HeaderValue> {
    let first = members.next()?;
    let Some(second) = members.next() else {
        return Some(first);
    };
    let all: Vec<HeaderValue> = [first, second].into_iter().chain(members).collect();
    let all: Vec<&[u8]> = all.iter().map(HeaderValue::as_bytes).collect();
    HeaderValue::from_maybe_shared(Bytes::from(all.join(&b", "[..]))).ok()
}

fn strictest<'d>(
    names: &'static [HeaderName; 4],
    counted: Reset,
    reported: impl Iterator<Item = Reported<'d>>,
) -> Option<ResponseFields> {
    let strictness = |it: &Reported<'_>| {
        let decision = it.decision;
        (decision.is_admitted(), decision.remaining(), Reverse(decision.reset_after()))
    };
    let decision = reported.min_by_key(strictness)?.decision;
    let reset = match decision.is_admitted() {
        true => Some(decision.reset_after()),
        false => decision.retry_after(),
    };
    Some(ResponseFields::Strictest {
        names,
        limit: decision.limit().min(MAX_INTEGER),
        remaining: decision.remaining().min(MAX_INTEGER),
        reset: reset.map(|wait| counted.seconds(wait)),
    })
}

/// Returns whether a decision is more restrictive than what the fields of an inner layer report.
fn is_stricter(
    names: &[HeaderName; 4],
    headers: &HeaderMap,
    remaining: u64,
    reset: Option<u64>,
) -> bool {
    let [_, _, remaining_field, reset_field] = names;
    let reported = |name: &HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let has_all = names.iter().skip(1).all(|name| headers.contains_key(name));
    let Some(inner) = reported(remaining_field).filter(|_| has_all) else {
        return true;
    };
    let key = |remaining, reset: Option<u64>| (remaining, Reverse(reset.unwrap_or(u64::MAX)));
    let is_refusal = headers.contains_key(RETRY_AFTER);
    !is_refusal && key(remaining, reset) < key(inner, reported(reset_field))
}

impl Reset {
    /// Returns the end of a wait.
    fn seconds(self, wait: Duration) -> u64 {
        match self {
            Self::Delta => whole_seconds(wait),
            Self::Epoch => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                whole_seconds(now.saturating_add(wait))
            }
        }
    }
}
