//! What the rules of a layer decided about a request.

use std::time::Duration;

use limiter_core::{Cost, Decision, Policy, Source};

use crate::{plan::Plan, respond::Reported, rule::Disclosure};

/// The decisions about one request, by policy, in the order in which the rules were asked.
///
/// A layer with [`decisions`](crate::RateLimitLayer::decisions) inserts them into the extensions of an
/// admitted request, for handlers, and of the response, for outer layers. The response to a refused
/// request has only the decision to refuse it, because the charges of earlier rules are refunded. An
/// inner layer appends to those of an outer one. With the feature `axum` they are an extractor.
///
/// ```
/// use limiter_tower::observe::Decisions;
///
/// async fn handler(decisions: Decisions) -> String {
///     let remaining = decisions.get("api").map(|decided| decided.decision().remaining());
///     format!("{remaining:?} requests remain")
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Beside the others, so that one decision allocates nothing.
    first: Option<PolicyDecision>,
    others: Vec<PolicyDecision>,
}

/// A decision, and the policy that it was made under.
#[derive(Clone, Debug)]
pub struct PolicyDecision {
    pub(crate) plan: Plan,
    pub(crate) cost: Cost,
    pub(crate) decision: Decision,
    pub(crate) is_shadow: bool,
    pub(crate) waited: Option<Duration>,
    pub(crate) disclosure: Disclosure,
}

impl PolicyDecision {
    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.plan.policy()
    }

    /// Returns the decision.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Returns the cost of the request.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns whether the rule is not enforced for this key: see [`Mode`](crate::rule::Mode). A refusal
    /// was not acted upon.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns how long the request waited for its permits, or `None` if it was not delayed.
    #[must_use]
    pub const fn waited(&self) -> Option<Duration> {
        self.waited
    }

    /// Counts what a settlement has given back of the charge, when `kept` permits stay.
    fn settle(&mut self, kept: u64) {
        let back = self.cost.get().saturating_sub(kept);
        let is_charged = self.decision.is_admitted() && has_state(&self.decision);
        if is_charged && back > 0 {
            self.decision = self.plan.fields().refunded(&self.decision, back);
        }
    }

    /// Returns what header fields report to clients, if they do.
    pub(crate) fn reported(&self) -> Option<Reported<'_>> {
        let is_public = self.disclosure == Disclosure::Full
            && !self.is_shadow
            // A refusal by a full table has a wait.
            && (has_state(&self.decision)
                || (!self.decision.is_admitted() && self.decision.source() == Source::FullTable));
        let Self { plan, cost, decision, .. } = self;
        is_public.then_some(Reported { plan, decision, cost: *cost })
    }
}

impl From<PolicyDecision> for Decisions {
    fn from(only: PolicyDecision) -> Self {
        Self { first: Some(only), others: Vec::new() }
    }
}

impl Decisions {
    /// Returns the decision under the policy of that name, the last one if there are several.
    #[must_use]
    pub fn get(&self, policy: &str) -> Option<&PolicyDecision> {
        self.iter().rev().find(|decided| decided.policy().name() == policy)
    }

    /// Returns the decisions in the order in which they were made.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PolicyDecision> + Clone {
        self.first.iter().chain(&self.others)
    }

    /// Returns what header fields report to clients.
    pub(crate) fn reported(&self) -> impl Iterator<Item = Reported<'_>> + Clone {
        self.iter().filter_map(PolicyDecision::reported)
    }

    /// Counts what a settlement has given back.
    pub(crate) fn settle(&mut self, kept: u64) {
        self.first.iter_mut().chain(&mut self.others).for_each(|decided| decided.settle(kept));
    }

    pub(crate) fn push(&mut self, decided: PolicyDecision) {
        match self.first {
            None => self.first = Some(decided),
            Some(_) => self.others.push(decided),
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        for decided in other.first.into_iter().chain(other.others) {
            self.push(decided);
        }
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for Decisions {
    type Rejection = (http::StatusCode, &'static str);

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _: &S,
    ) -> Result<Self, Self::Rejection> {
        parts.extensions.get().cloned().ok_or((
            http::StatusCode::INTERNAL_SERVER_ERROR,
            "the request has no rate limit decisions: call `decisions` on a `RateLimitLayer` around \
             this route",
        ))
    }
}

/// Returns whether a decision was made by a key's state, which an admission has charged.
fn has_state(decision: &Decision) -> bool {
    !matches!(decision.source(), Source::Failure | Source::FullTable)
}
