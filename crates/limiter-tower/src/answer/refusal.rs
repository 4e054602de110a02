//! A request that is not admitted.

use std::{borrow::Cow, error, fmt, iter, ops::Deref, time::Duration};

use http::StatusCode;
use limiter_core::{Decision, Policy};

use super::protocol::Protocol;
use crate::{
    decisions::{Decided, Decisions, InFlightDecision, PolicyDecision},
    fields::whole_seconds,
    key::{Head, MissingKey},
    observe::Outcome,
    plan::Plan,
    rule::Disclosure,
};

/// Why a request is not admitted.
///
/// A [rule](crate::Rule) in a handler returns it as an error. With the feature `axum` it is a response:
/// that of [`text`](crate::refusal::text). [`Answers::respond`](crate::Answers::respond) returns another one. With the
/// feature `tonic` it becomes a `tonic::Status`.
#[derive(Clone, Debug)]
pub struct Refused(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    /// `None` if no policy applied, because a limit on requests in flight decided.
    plan: Option<Plan>,
    reason: Reason,
}

/// The kind of a [`Refused`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Limits refused it. There is at least one decision, and all are refusals.
    Quota(Decisions),
    /// The store failed, and requests are denied then.
    Unavailable,
    /// The server is not set up so that its limiter can decide.
    Misconfigured,
    /// It has no key, and such requests are rejected.
    Rejected(MissingKey),
    /// Limits on requests in flight refused it: each that was found full, by its decision
    /// [`in_flight`](Decisions::in_flight).
    InFlight(Decisions),
    /// It lost its permit before it was answered, and the rule is [strict](crate::InFlightRule::strict).
    PermitLost,
}

/// A request that is not admitted, and why: what a closure given to
/// [`Answers::refuse_with`](crate::Answers::refuse_with) responds to. The layer adds the header fields.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    head: Head<'r>,
    refused: &'r Refused,
}

impl Reason {
    /// Returns the reason of a rule with this outcome that refuses without a decision.
    pub(crate) const fn without_decision(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Rejected => Self::Misconfigured,
            Outcome::ErrorDenied
            // These have decisions, or refuse nothing.
            | Outcome::Denied
            | Outcome::Blocked
            | Outcome::Allowed
            | Outcome::Delayed
            | Outcome::ShadowDenied
            | Outcome::Bypassed
            | Outcome::ErrorAllowed
            | Outcome::PermitLost
            | Outcome::HeldTooLong
            | Outcome::UpgradeNotHeld => Self::Unavailable,
        }
    }
}

impl Refused {
    pub(crate) fn new(plan: impl Into<Option<Plan>>, reason: Reason) -> Self {
        Self(Box::new(Inner { plan: plan.into(), reason }))
    }

    /// Returns the refusal by an enforced rule, whose key is not blocked.
    pub(crate) fn by(decided: Decided<'_>) -> Self {
        let decisions = iter::once(PolicyDecision::of(decided)).collect();
        Self::new(decided.plan.clone(), Reason::Quota(decisions))
    }

    /// Returns the refusal by these decisions, `None` if there are none.
    ///
    /// Each that clients may see has the longest wait of those, so that no header field gives an earlier time than
    /// `Retry-After`. The others keep their own.
    pub(crate) fn by_quota(mut decisions: Vec<PolicyDecision>) -> Option<Self> {
        let plan = decisions.first()?.plan.clone();
        if let [_, _, ..] = *decisions {
            let is_disclosed = |it: &PolicyDecision| it.disclosure != Disclosure::None;
            let longest = longest_wait(decisions.iter().filter(|it| is_disclosed(it)));
            for decided in decisions.iter_mut().filter(|it| is_disclosed(it)) {
                let (usage, source) = (decided.decision.usage(), decided.decision.source());
                decided.decision = Decision::refused(usage, longest).with_source(source);
            }
        }
        Some(Self::new(plan, Reason::Quota(decisions.into_iter().collect())))
    }

    /// Returns why the request is not admitted.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Returns the policy that applied: of several, that of the first rule that refused. `None` if it was a limit on
    /// requests in flight.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.0.plan.as_ref().map(Plan::policy)
    }

    /// Returns the decisions that refused the request: of all rules that refused it, also of those that clients must
    /// not see.
    pub fn decisions(&self) -> impl Iterator<Item = &PolicyDecision> + Clone {
        self.all_decisions().into_iter().flat_map(Decisions::iter)
    }

    /// Returns the limits on requests in flight that refused the request, also those that clients must not see.
    pub fn in_flight(&self) -> impl Iterator<Item = &InFlightDecision> + Clone {
        self.all_decisions().into_iter().flat_map(Decisions::in_flight)
    }

    /// Returns the decisions of both kinds that refused the request, `None` if it was refused without one.
    pub(crate) fn all_decisions(&self) -> Option<&Decisions> {
        match self.reason() {
            Reason::Quota(decisions) | Reason::InFlight(decisions) => Some(decisions),
            Reason::Unavailable
            | Reason::Misconfigured
            | Reason::Rejected(_)
            | Reason::PermitLost => None,
        }
    }

    /// Returns the decisions whose wait clients may see.
    fn disclosed(&self) -> impl Iterator<Item = &PolicyDecision> + Clone {
        self.decisions().filter(|decided| decided.disclosure != Disclosure::None)
    }

    /// Returns the decisions that clients may see in full.
    pub(super) fn public(&self) -> impl Iterator<Item = &PolicyDecision> + Clone {
        self.decisions().filter(|decided| decided.disclosure == Disclosure::Full)
    }

    /// Returns when to retry, as far as clients may see it: the longest wait of the rules that refused, or a second if
    /// the store failed. `None` if a retry can't help, or if [`Disclosure`] hides it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason() {
            Reason::Quota(_) if self.disclosed().next().is_none() => None,
            Reason::Quota(_) => longest_wait(self.disclosed()),
            Reason::Unavailable => Some(Duration::from_secs(1)),
            // Nobody knows when a request in flight ends.
            Reason::InFlight(_) | Reason::PermitLost => None,
            Reason::Misconfigured | Reason::Rejected(_) => None,
        }
    }

    /// Returns [`retry_after`](Self::retry_after) as the field `Retry-After` has it: in whole seconds,
    /// rounded up, at least one.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(whole_seconds)
    }

    /// Returns whether clients must not see which limit has refused the request: then all refusals are alike.
    pub(super) fn is_hidden(&self) -> bool {
        let is_hidden = |disclosure| disclosure == Disclosure::None;
        self.all_decisions().is_some()
            && self.decisions().all(|it| is_hidden(it.disclosure))
            && self.in_flight().all(|it| is_hidden(it.disclosure))
    }

    /// Returns whether the key is blocked, as far as clients may see it.
    pub(super) fn is_blocked(&self) -> bool {
        self.disclosed().any(|decided| decided.is_blocked)
    }

    /// Returns whether the cost can never be admitted, and clients may see it.
    pub(super) fn never_fits(&self) -> bool {
        self.disclosed().any(|decided| decided.decision.retry_after().is_none())
    }

    /// Returns the status code for HTTP: 429 if a limit refused the request, 503 if the store failed,
    /// 400 without a key, and 500 for a fault of the server. It is 503 as well if the request has lost its permit, and if
    /// all limits on requests in flight that refused it are the [service's own](crate::InFlightRule::unavailable).
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason() {
            Reason::Quota(_) => StatusCode::TOO_MANY_REQUESTS,
            Reason::InFlight(_) if !self.in_flight().all(|it| it.is_unavailable) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Reason::Unavailable | Reason::InFlight(_) | Reason::PermitLost => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Reason::Misconfigured | Reason::Rejected(MissingKey::Server(_)) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Reason::Rejected(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the reason in words, for clients.
    ///
    /// A fault of the server is not for clients: only debug builds say what to change.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self.reason() {
            Reason::Quota(_) if self.never_fits() => {
                "the request costs more than the rate limit can admit".into()
            }
            Reason::InFlight(_) if self.is_hidden() => QUOTA.into(),
            Reason::Quota(_) => QUOTA.into(),
            Reason::InFlight(_) => "too many requests in flight".into(),
            Reason::PermitLost => "the request has lost its permit".into(),
            Reason::Unavailable => "the rate limit can't be checked now".into(),
            Reason::Rejected(MissingKey::Server(reason)) if cfg!(debug_assertions) => {
                format!("the rate limit is not set up: {reason}").into()
            }
            Reason::Misconfigured | Reason::Rejected(MissingKey::Server(_)) => {
                "the rate limit is not set up".into()
            }
            Reason::Rejected(missing) => missing.to_string().into(),
        }
    }
}

/// The reason of a refusal by a quota. As the text of `text_of_quota` has it.
pub(super) const QUOTA: &str = "rate limit exceeded";

/// Returns the longest wait of refusals, `None` if one of them is for ever.
fn longest_wait<'d>(mut refused: impl Iterator<Item = &'d PolicyDecision>) -> Option<Duration> {
    refused.try_fold(Duration::ZERO, |longest, decided| {
        Some(longest.max(decided.decision.retry_after()?))
    })
}

impl<'r> Refusal<'r> {
    pub(crate) const fn new(head: Head<'r>, refused: &'r Refused) -> Self {
        Self { head, refused }
    }

    /// Returns the head of the request.
    #[must_use]
    pub const fn head(&self) -> Head<'r> {
        self.head
    }

    /// Returns the protocol of the request, by its content type.
    pub(super) fn protocol(&self) -> Protocol {
        Protocol::of(self.head)
    }
}

impl Deref for Refusal<'_> {
    type Target = Refused;

    fn deref(&self) -> &Refused {
        self.refused
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl error::Error for Refused {}

#[cfg(test)]
mod tests {
    use std::iter::successors;

    use super::{Decisions, MissingKey, Reason, Refused};

    /// Returns all reasons. A new one fails to compile here.
    fn all() -> impl Iterator<Item = Reason> {
        successors(Some(Reason::Quota(Decisions::default())), |last| match last {
            Reason::Quota(_) => Some(Reason::InFlight(Decisions::default())),
            Reason::InFlight(_) => Some(Reason::PermitLost),
            Reason::PermitLost => Some(Reason::Unavailable),
            Reason::Unavailable => Some(Reason::Rejected(MissingKey::absent("no key"))),
            Reason::Rejected(_) => Some(Reason::Misconfigured),
            Reason::Misconfigured => None,
        })
    }

    #[test]
    fn the_documents_have_each_reason_with_its_status() {
        let guide = include_str!("../../docs/guide/refusals.md");
        let table = include_str!("../lib.rs").lines().filter(|line| line.starts_with("//! |"));
        for reason in all() {
            let debug = format!("{reason:?}");
            let name = debug.split('(').next().unwrap_or_default();
            let status = Refused::new(None, reason).status();
            let has_status = |row: &str| row.contains(status.as_str());
            let mut rows = guide.lines().filter(|line| line.starts_with(&format!("| `{name}`")));
            assert!(rows.any(has_status), "no row for {name} with {status} in refusals.md");
            assert!(table.clone().any(has_status), "no row for {name} with {status} in lib.rs");
        }
    }
}
