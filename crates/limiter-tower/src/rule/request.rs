//! What the decision on a request needs of its rule.

use std::borrow::Cow;

use limiter_core::{Cost, Error};

use super::{Details, Rule, settings::Select};
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
            self.spec().report_rate(&self.live_plan(), outcome, Details::default(), head);
        }
    }
}
