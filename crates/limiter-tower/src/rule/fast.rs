//! The fast path of a rule whose limiter is in memory.

use limiter_core::{Cost, Decision};

use super::{
    Rule,
    settings::{Select, Settings},
};
use crate::{key::Head, plan::Plan};

impl Rule {
    /// Returns the plan of a rule that has a fast path: the limiter is in memory, where it answers at once and never fails,
    /// and its decision on a request is all that there is to the rule.
    pub(crate) fn fast_plan(&self) -> Option<&Plan> {
        let plan = self.shared().plan.configured();
        let is_own = matches!(self.settings.select, Select::Own);
        let is_in_memory = plan.limiter().store() == "memory";
        (is_own && is_in_memory && self.settings.is_plain()).then_some(plan)
    }

    /// Returns the decision on a request by a rule that has a fast path, and the cost, and reports it. `None`
    /// if the rule was changed since, or the request has no key: then nothing is charged.
    pub(crate) fn check_fast(&self, plan: &Plan, head: Head<'_>) -> Option<(Decision, Cost)> {
        let Settings { spec, typed, cost, .. } = &*self.settings;
        match spec.live.was_changed.get() {
            true => None,
            false => typed.check(spec, plan, cost.as_ref(), head),
        }
    }
}
