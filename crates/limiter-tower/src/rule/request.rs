//! What the decision on a request needs of its rule.

use std::borrow::Cow;

use limiter_core::{Cost, Decision, Error};

use super::{
    Rule,
    settings::{Select, Settings},
};
use crate::{key::Head, observe::Outcome, plan::Plan};

impl Rule {
    /// Returns the plan that applies to a request.
    ///
    /// # Errors
    ///
    /// If it was chosen for the request, and has the name of another rule of the layer.
    pub(crate) fn plan_of(&self, head: Head<'_>) -> Result<Cow<'_, Plan>, Error> {
        if let Select::By(select) = &self.settings.select
            && let Some(plan) = select(head)
        {
            self.check_names(plan.policy())?;
            return Ok(Cow::Owned(plan));
        }
        Ok(self.fixed_plan())
    }

    /// Returns the plan that applies without a request: the rule's own, unless it is under a fixed one.
    pub(crate) fn fixed_plan(&self) -> Cow<'_, Plan> {
        match &self.settings.select {
            Select::Fixed(plan) => Cow::Borrowed(plan),
            Select::Own | Select::By(_) => self.live_plan(),
        }
    }

    /// Returns whether the plan depends on the request.
    pub(crate) fn selects_by_request(&self) -> bool {
        matches!(self.settings.select, Select::By(_))
    }

    pub(crate) fn cost_of(&self, head: Head<'_>) -> Cost {
        self.settings.cost.as_ref().map_or(Cost::ONE, |cost| cost(head))
    }

    /// Reports that the rule was not asked.
    pub(crate) fn report_not_asked(&self, outcome: Outcome, head: Head<'_>) {
        if self.spec().is_observed() {
            let plan = self.live_plan();
            self.spec().report(&self.spec().rate_event(&plan, outcome, head));
        }
    }

    /// Returns the plan of a rule that has a fast path: the limiter is in memory, where it answers at once and never fails,
    /// and its decision on a request is all that there is to the rule.
    pub(crate) fn fast_plan(&self) -> Option<&Plan> {
        let plan = self.shared().plan.configured();
        let is_own = matches!(self.settings.select, Select::Own);
        let is_in_memory = plan.limiter().store() == "memory";
        (is_own && is_in_memory && self.settings.is_plain()).then_some(plan)
    }

    /// Returns whether the rule decides at once, whatever was changed since: its limiter is in memory, and nothing waits.
    pub(crate) fn is_immediate(&self) -> bool {
        let is_in_memory = self.fixed_plan().limiter().store() == "memory";
        is_in_memory && self.settings.wait.is_none() && !self.selects_by_request()
    }

    /// Returns the decision on a request by a rule that has a fast path, and the cost, and reports it. `None` if the
    /// request has no key: then nothing is charged.
    pub(crate) fn check_fast(&self, plan: &Plan, head: Head<'_>) -> Option<(Decision, Cost)> {
        let Settings { spec, typed, cost, .. } = &*self.settings;
        typed.check(spec, plan, cost.as_ref(), head)
    }
}
