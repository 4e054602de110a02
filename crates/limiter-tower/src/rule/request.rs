//! What the decision on a request needs of its rule.

use std::borrow::Cow;

use limiter_core::Cost;

use super::{Details, Rule, settings::Select};
use crate::{key::Head, observe::Outcome, plan::Plan};

impl Rule {
    /// Returns the plan that applies to a request.
    pub(crate) fn plan_of(&self, head: Head<'_>) -> Cow<'_, Plan> {
        match &self.settings.select {
            Select::By(select) => select(head).map_or_else(|| self.live_plan(), Cow::Owned),
            Select::Own | Select::Fixed(_) => self.fixed_plan(),
        }
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
            self.spec().report_rate(&self.live_plan(), outcome, Details::default(), head);
        }
    }
}
