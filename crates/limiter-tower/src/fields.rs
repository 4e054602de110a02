//! The header fields of a policy and its decisions.
//!
//! `RateLimit-Policy` and `RateLimit` are structured fields (RFC 9651) as
//! draft-ietf-httpapi-ratelimit-headers-11 defines them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use limiter_core::{Decision, Policy};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The largest integer of a structured field: RFC 9651, section 3.3.1.
const MAX_INTEGER: u128 = 999_999_999_999_999;

/// One policy's fields, as far as they can be written in advance.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    policy: HeaderValue,
    /// Not empty.
    limits: Box<[Limit]>,
}

/// One of the policy's limits.
#[derive(Clone, Debug)]
struct Limit {
    /// As a structured field's string.
    name: Box<str>,
    permits: u128,
    window: Duration,
    /// Whether permits come back one by one, at the quota's rate.
    continuous: bool,
}

impl Fields {
    pub(crate) fn new(policy: &Policy) -> Self {
        let limits: Box<[_]> = policy.limits().iter().map(Limit::new).collect();
        let members: Vec<_> = limits.iter().map(Limit::member).collect();
        Self { policy: header_value(&members.join(", ")), limits }
    }

    /// Appends the fields of `decision`, after those that an inner limit may have set.
    ///
    /// Of several limits, `RateLimit` tells of the one that decided.
    pub(crate) fn append(&self, decision: &Decision, headers: &mut HeaderMap) {
        let Some(limit) = self.limits.get(decision.limit_index()) else {
            return;
        };
        let name = &limit.name;
        let remaining = u128::from(decision.remaining()).min(MAX_INTEGER);
        let value = match limit.effective_window(decision) {
            Some(seconds) => format!("{name};r={remaining};t={seconds}"),
            None => format!("{name};r={remaining}"),
        };
        headers.append(RATELIMIT_POLICY, self.policy.clone());
        headers.append(RATELIMIT, header_value(&value));
        if let (false, Some(wait)) = (decision.is_admitted(), decision.retry_after()) {
            headers.insert(RETRY_AFTER, whole_seconds(wait).into());
        }
    }
}

impl Limit {
    fn new(limit: &limiter_core::Limit) -> Self {
        let name = limit.name().replace('\\', r"\\").replace('"', r#"\""#);
        Self {
            name: format!("\"{name}\"").into_boxed_str(),
            permits: limit.quota().permits().into(),
            window: limit.quota().window(),
            continuous: limit.algorithm().is_continuous(),
        }
    }

    /// Returns the limit as a member of `RateLimit-Policy`.
    fn member(&self) -> String {
        let Self { name, permits, window, .. } = self;
        // The field's window is in whole seconds, so the quota is told for as many.
        let seconds = whole_seconds(*window);
        let quota = permits * u128::from(seconds) * 1_000 / window.as_millis();
        format!("{name};q={};w={seconds}", quota.min(MAX_INTEGER))
    }

    /// Returns for how many seconds the remaining permits have to do, `None` if no time will help.
    ///
    /// Where permits come back one by one, that is how long the quota takes to give out as many; if
    /// there are none, how long until there is one. Else it is how long until all are back. No
    /// client is told to come earlier than a refusal would tell it.
    fn effective_window(&self, decision: &Decision) -> Option<u64> {
        if !decision.is_admitted() {
            return decision.retry_after().map(whole_seconds);
        }
        if !self.continuous {
            return Some(whole_seconds(decision.reset_after()));
        }
        let seconds = match u128::from(decision.remaining()) {
            0 => {
                let others =
                    u128::from(decision.limit().saturating_sub(1)) * self.window.as_nanos();
                let others = Duration::from_nanos(clamp(others / self.permits));
                whole_seconds(decision.reset_after().saturating_sub(others))
            }
            remaining => {
                let nanos = (remaining * self.window.as_nanos()).div_ceil(self.permits);
                whole_seconds(Duration::from_nanos(clamp(nanos)))
            }
        };
        Some(seconds)
    }
}

/// Rounds up, to one second at least: a client that waits this long has waited enough.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

fn clamp(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

fn header_value(value: &str) -> HeaderValue {
    // Policy names are printable ASCII, and so is all the rest.
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}
