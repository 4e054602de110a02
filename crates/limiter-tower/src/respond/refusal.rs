//! A request that is not admitted.

use std::{borrow::Cow, time::Duration};

use http::StatusCode;
use limiter_core::{Decision, Limit, Policy};

use super::{Protocol, fields::whole_seconds};
use crate::{
    key::{Head, MissingKey},
    observe::PolicyDecision,
    plan::Plan,
    rule::Disclosure,
};

/// A request that is not admitted, and why.
///
/// A closure given to [`RateLimitLayer::refuse_with`](crate::RateLimitLayer::refuse_with) returns the
/// response to it. The layer adds the header fields.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    head: Head<'r>,
    plan: &'r Plan,
    reason: Reason<'r>,
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reason<'r> {
    /// A limit refused it.
    Quota(&'r PolicyDecision),
    /// The store failed, and requests are denied then.
    Unavailable,
    /// The server is not set up so that its limiter can decide.
    Misconfigured,
    /// It has no key, and such requests are rejected.
    Rejected(&'r MissingKey),
}

impl<'r> Refusal<'r> {
    pub(crate) const fn quota(head: Head<'r>, decided: &'r PolicyDecision) -> Self {
        Self { head, plan: &decided.plan, reason: Reason::Quota(decided) }
    }

    pub(crate) const fn unavailable(head: Head<'r>, plan: &'r Plan) -> Self {
        Self { head, plan, reason: Reason::Unavailable }
    }

    pub(crate) const fn misconfigured(head: Head<'r>, plan: &'r Plan) -> Self {
        Self { head, plan, reason: Reason::Misconfigured }
    }

    pub(crate) const fn rejected(head: Head<'r>, plan: &'r Plan, missing: &'r MissingKey) -> Self {
        Self { head, plan, reason: Reason::Rejected(missing) }
    }

    /// Returns the head of the request.
    #[must_use]
    pub const fn head(&self) -> Head<'r> {
        self.head
    }

    /// Returns the protocol of the request.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        Protocol::of(self.head)
    }

    /// Returns the policy that applies.
    #[must_use]
    pub fn policy(&self) -> &'r Policy {
        self.plan.policy()
    }

    /// Returns why the request is not admitted.
    #[must_use]
    pub const fn reason(&self) -> Reason<'r> {
        self.reason
    }

    /// Returns the decision, if a limit refused the request.
    #[must_use]
    pub const fn decision(&self) -> Option<Decision> {
        match self.reason {
            Reason::Quota(decided) => Some(decided.decision),
            _ => None,
        }
    }

    /// Returns the limit that refused the request, if one did.
    #[must_use]
    pub fn limit(&self) -> Option<&'r Limit> {
        self.policy().limits().get(self.decision()?.limit_index())
    }

    /// Returns when to retry: a second from now if the store failed. `None` if a retry can't help.
    ///
    /// With several rules it is the longest wait among the one that refused and those after it, as far
    /// as their limiters know it without a call to a store and their
    /// [disclosure](crate::rule::Disclosure) shows it.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            Reason::Quota(decided) => decided.decision.retry_after(),
            Reason::Unavailable => Some(Duration::from_secs(1)),
            Reason::Misconfigured | Reason::Rejected(_) => None,
        }
    }

    /// Returns [`retry_after`](Self::retry_after) as the field `Retry-After` has it: in whole seconds,
    /// rounded up, at least one.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(whole_seconds)
    }

    /// Returns how much of the decision clients see.
    pub(super) const fn disclosure(&self) -> Disclosure {
        match self.reason {
            Reason::Quota(decided) => decided.disclosure,
            _ => Disclosure::Full,
        }
    }

    /// Returns the status code for HTTP: 429 if a limit refused the request, 503 if the store failed,
    /// 400 without a key, and 500 for a fault of the server.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Quota(_) => StatusCode::TOO_MANY_REQUESTS,
            Reason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            Reason::Rejected(MissingKey::Server(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Reason::Rejected(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the reason in words, for clients.
    #[must_use]
    pub fn message(&self) -> Cow<'r, str> {
        match self.reason {
            Reason::Quota(_) if self.retry_after().is_none() => {
                "the request costs more than the rate limit can admit".into()
            }
            Reason::Quota(_) => "rate limit exceeded".into(),
            Reason::Unavailable => "the rate limit can't be checked now".into(),
            // How the server is set up is not for clients.
            Reason::Misconfigured => "the rate limit is not set up".into(),
            Reason::Rejected(MissingKey::Server(_)) => "the rate limit is not set up".into(),
            Reason::Rejected(missing) => missing.to_string().into(),
        }
    }
}
