//! What the rules of a layer decided about a request.

use std::{sync::Arc, time::Duration};

use limiter_core::{Cost, Decision, Key, Limit, Occupancy, Policy, Source};
use smallvec::SmallVec;

use crate::{
    key::Head,
    observe::{Event, Outcome},
    plan::Plan,
    rule::{Disclosure, Rule},
};

/// The decisions about one request, in the order in which the rules are asked.
///
/// A layer with [`decisions`](crate::RateLimitLayer::decisions) inserts them into the extensions of an admitted request,
/// for handlers, and of each response, for outer layers. The response to a refused request has the decisions of all rules
/// that refuse it. An inner layer appends to those of an outer one. With the feature `axum` they are an extractor.
///
/// ```
/// use limiter_tower::{Rule, observe::Decisions};
///
/// fn remaining(decisions: &Decisions, api: &Rule) -> Option<u64> {
///     Some(decisions.of(api)?.decision().remaining())
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<All>);

#[derive(Clone, Debug, Default)]
struct All {
    /// Most layers have one rule.
    of_rules: SmallVec<[PolicyDecision; 1]>,
    in_flight: Vec<InFlightDecision>,
}

/// A decision, and the policy that it was made under.
#[derive(Clone, Debug)]
pub struct PolicyDecision {
    /// The rule's own, so that all its clones have the same one.
    pub(crate) rule: Arc<str>,
    pub(crate) plan: Plan,
    pub(crate) cost: Cost,
    /// Less than the cost if the rule charges after the response.
    pub(crate) charged: u64,
    pub(crate) decision: Decision,
    pub(crate) is_shadow: bool,
    pub(crate) is_blocked: bool,
    pub(crate) waited: Option<Duration>,
    pub(crate) disclosure: Disclosure,
}

impl PolicyDecision {
    pub(crate) fn of(decided: Decided<'_>) -> Self {
        let Decided { rule, plan, decision, cost } = decided;
        Self {
            rule: Arc::clone(&rule.spec().live.name),
            plan: plan.clone(),
            cost,
            charged: cost.get(),
            decision: *decision,
            is_shadow: false,
            is_blocked: false,
            waited: None,
            disclosure: rule.spec().disclosure,
        }
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.plan.policy()
    }

    /// Returns the limit that decided: the one that refused, or the one with the fewest permits left.
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        self.policy().limits().get(self.decision.limit_index())
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

    /// Returns whether it is a refusal because the key is [blocked](Rule::block).
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns how long the request waited for its permits, or `None` if it was not delayed.
    #[must_use]
    pub const fn waited(&self) -> Option<Duration> {
        self.waited
    }

    /// Sets what the request was charged in the end.
    fn settle(&mut self, kept: u64) {
        if self.decision.is_admitted() && self.decision.source() != Source::FullTable {
            self.decision = self.plan.fields().settled(&self.decision, self.charged, kept);
            self.charged = kept;
        }
    }

    /// Returns what header fields report to clients, if they do.
    pub(crate) fn reported(&self) -> Option<Reported<'_>> {
        let Self { plan, cost, charged, decision, .. } = self;
        is_public(self.disclosure, self.is_shadow, decision).then_some(Reported {
            plan,
            decision,
            cost: *cost,
            charged: if decision.is_admitted() { *charged } else { cost.get() },
        })
    }
}

/// What a limit on requests in flight decided about a request.
#[derive(Clone, Debug)]
pub struct InFlightDecision {
    /// The rule's own, so that all its clones have the same one.
    pub(crate) rule: Arc<str>,
    pub(crate) occupancy: Occupancy,
    pub(crate) is_admitted: bool,
    pub(crate) is_shadow: bool,
    /// Whether a refusal is answered 503.
    pub(crate) is_unavailable: bool,
    pub(crate) disclosure: Disclosure,
}

impl InFlightDecision {
    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns how many permits of the key were held, that of an admitted request included, and under which limit.
    #[must_use]
    pub const fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Returns whether there was room for the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Returns whether the rule is not enforced for this key: see [`Mode`](crate::rule::Mode). A refusal
    /// was not acted upon.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns whether header fields and refusals report the decision to clients.
    pub(crate) fn is_public(&self) -> bool {
        // A limiter that admits although its table is full has no figures.
        let has_state = self.occupancy.source() != Source::FullTable || !self.is_admitted;
        self.disclosure == Disclosure::Full && !self.is_shadow && has_state
    }
}

/// Returns whether header fields report a decision.
pub(crate) fn is_public(disclosure: Disclosure, is_shadow: bool, decision: &Decision) -> bool {
    disclosure == Disclosure::Full
        && !is_shadow
        // A full table admits without a state, and refuses with a wait.
        && (decision.source() != Source::FullTable || !decision.is_admitted())
}

/// A decision that header fields report.
#[derive(Clone, Copy)]
pub(crate) struct Reported<'d> {
    pub(crate) plan: &'d Plan,
    pub(crate) decision: &'d Decision,
    pub(crate) cost: Cost,
    /// What the request was charged in the end. Of a refusal, its cost.
    pub(crate) charged: u64,
}

/// The decision of an enforced rule that charges at once, on a key that is not blocked.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'d> {
    pub(crate) rule: &'d Rule,
    pub(crate) plan: &'d Plan,
    pub(crate) decision: &'d Decision,
    pub(crate) cost: Cost,
}

impl<'d> Decided<'d> {
    /// Returns what header fields report to clients, if they do.
    pub(crate) fn reported(self) -> Option<Reported<'d>> {
        let Self { rule, plan, decision, cost } = self;
        let is_public = is_public(rule.spec().disclosure, false, decision);
        is_public.then_some(Reported { plan, decision, cost, charged: cost.get() })
    }

    /// Reports it to observers.
    pub(crate) fn report(
        self,
        outcome: Outcome,
        key: &Key<'_>,
        elapsed: Option<Duration>,
        head: Head<'_>,
    ) {
        let Self { rule, plan, decision, .. } = self;
        let event = rule.spec().rate_event(plan, outcome, head);
        rule.spec().report(&Event { key: Some(key), decision: Some(decision), elapsed, ..event });
    }
}

impl Decisions {
    /// Returns the decision of a rule, the last one if it was asked by several layers.
    #[must_use]
    pub fn of(&self, rule: &Rule) -> Option<&PolicyDecision> {
        self.iter().rev().find(|decided| Arc::ptr_eq(&decided.rule, &rule.spec().live.name))
    }

    /// Returns the decisions in the order in which they were made.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PolicyDecision> + Clone {
        self.0.of_rules.iter()
    }

    /// Returns what the limits on requests in flight decided, in the order in which they were asked.
    #[must_use]
    pub fn in_flight(&self) -> impl DoubleEndedIterator<Item = &InFlightDecision> + Clone {
        self.0.in_flight.iter()
    }

    pub(crate) fn of_in_flight(in_flight: Vec<InFlightDecision>) -> Self {
        Self(Arc::new(All { in_flight, ..All::default() }))
    }

    /// Returns what header fields report to clients.
    pub(crate) fn reported(&self) -> impl Iterator<Item = Reported<'_>> + Clone {
        self.iter().filter_map(PolicyDecision::reported)
    }

    /// Sets what a rule has charged in the end.
    pub(crate) fn settle(&mut self, rule: &Rule, kept: u64) {
        let is_of_rule =
            |decided: &&mut PolicyDecision| Arc::ptr_eq(&decided.rule, &rule.spec().live.name);
        let of_rule = Arc::make_mut(&mut self.0).of_rules.iter_mut().filter(is_of_rule);
        of_rule.for_each(|decided| decided.settle(kept));
    }

    pub(crate) fn append(&mut self, other: &Self) {
        let all = Arc::make_mut(&mut self.0);
        all.of_rules.extend(other.iter().cloned());
        all.in_flight.extend(other.in_flight().cloned());
    }
}

impl FromIterator<PolicyDecision> for Decisions {
    fn from_iter<I: IntoIterator<Item = PolicyDecision>>(decisions: I) -> Self {
        Self(Arc::new(All { of_rules: decisions.into_iter().collect(), ..All::default() }))
    }
}

#[cfg(feature = "axum")]
crate::head::extractor!(
    Decisions,
    "the request has no rate limit decisions: call `decisions` on a `RateLimitLayer` around this route"
);
