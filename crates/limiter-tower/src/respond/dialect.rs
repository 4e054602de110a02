//! Which header fields report the decisions.

use std::{
    cmp::Reverse,
    iter,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};

use super::fields::{MAX_INTEGER, header_value, integer, whole_seconds};
use crate::PolicyDecision;

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

/// The names of a draft's parameters.
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
                quota: "q",
                window: "w",
                burst: "limiter-burst",
                remaining: "r",
                time: "t",
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

    /// Appends the fields of these decisions, after those of inner layers.
    pub(super) fn append<'d>(
        self,
        decided: impl Iterator<Item = &'d PolicyDecision> + Clone,
        headers: &mut HeaderMap,
    ) {
        match self {
            Self::RateLimit(draft) => append_members(draft, decided, headers),
            Self::RateLimitReset => append_strictest(&RESET_FIELDS, Reset::Delta, decided, headers),
            Self::XRateLimit(reset) => append_strictest(&X_FIELDS, reset, decided, headers),
            Self::None => {}
        }
    }
}

/// Appends a list with a member for each decision.
fn append_members<'d>(
    draft: Draft,
    decided: impl Iterator<Item = &'d PolicyDecision> + Clone,
    headers: &mut HeaderMap,
) {
    let mut members = String::with_capacity(64);
    for decided in decided.clone() {
        if let Some(member) = decided.plan.fields().member(draft, decided) {
            member.write_to(&mut members);
        }
    }
    if let Some(policies) = policies(draft, decided) {
        headers.append(RATELIMIT_POLICY, policies);
        headers.append(RATELIMIT, header_value(members));
    }
}

/// Returns the list of all policies that decided.
fn policies<'d>(
    draft: Draft,
    mut decided: impl Iterator<Item = &'d PolicyDecision>,
) -> Option<HeaderValue> {
    let policy =
        |decided: &'d PolicyDecision| decided.plan.fields().policy(draft, &decided.decision);
    let first = policy(decided.next()?);
    let Some(second) = decided.next() else {
        return Some(first.into_owned());
    };
    let mut list = first.as_bytes().to_vec();
    for other in iter::once(second).chain(decided) {
        list.extend_from_slice(b", ");
        list.extend_from_slice(policy(other).as_bytes());
    }
    HeaderValue::from_maybe_shared(Bytes::from(list)).ok()
}

/// Inserts the limit, what remains and the time until the reset of the most restrictive decision.
fn append_strictest<'d>(
    fields: &'static [HeaderName; 4],
    counted: Reset,
    decided: impl Iterator<Item = &'d PolicyDecision>,
    headers: &mut HeaderMap,
) {
    let strictness = |decided: &&PolicyDecision| {
        let decision = &decided.decision;
        (decision.is_admitted(), decision.remaining(), Reverse(decision.reset_after()))
    };
    let Some(PolicyDecision { decision, .. }) = decided.min_by_key(strictness) else {
        return;
    };
    let remaining = decision.remaining().min(MAX_INTEGER);
    let reset = match decision.is_admitted() {
        true => Some(decision.reset_after()),
        // `None` if the cost never fits.
        false => decision.retry_after(),
    };
    let reset = reset.map(|wait| counted.seconds(wait));

    let [_, limit_field, remaining_field, reset_field] = fields;
    let reported = |name: &HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let inner = fields.iter().skip(1).all(|name| headers.contains_key(name));
    if let Some(inner) = reported(remaining_field).filter(|_| inner) {
        let key = |remaining, reset: Option<u64>| (remaining, Reverse(reset.unwrap_or(u64::MAX)));
        let is_refusal = headers.contains_key(RETRY_AFTER);
        if is_refusal || key(inner, reported(reset_field)) <= key(remaining, reset) {
            return;
        }
    }
    headers.insert(limit_field, integer(decision.limit().min(MAX_INTEGER)));
    headers.insert(remaining_field, integer(remaining));
    match reset {
        Some(reset) => headers.insert(reset_field, integer(reset)),
        None => headers.remove(reset_field),
    };
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
