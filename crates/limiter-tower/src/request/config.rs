//! All that a layer of rates and its services share.

use super::common::{Common, LayerRule};
use crate::{
    key::Head,
    observe::Outcome,
    plan::Plan,
    rule::{ObserveFn, Rule, Spec},
};

/// All that a layer of rates and its services share.
#[derive(Clone)]
pub(crate) struct Config {
    pub(super) common: Common<Rule>,
    /// Whether handlers get a `Charge`.
    pub(super) is_chargeable: bool,
    /// The plan of the only rule, if nothing follows from its decision but fields, decisions in the extensions or a refusal.
    pub(super) fast: Option<Plan>,
}

impl LayerRule for Rule {
    fn spec(&self) -> &Spec {
        self.spec()
    }

    fn report_not_asked(&self, outcome: Outcome, head: Head<'_>) {
        self.report_not_asked(outcome, head);
    }

    fn observed_by(self, observer: ObserveFn) -> Self {
        self.observed_by(observer)
    }
}

impl Config {
    pub(super) fn new(rules: Box<[Rule]>) -> Self {
        Self { common: Common::new(rules), is_chargeable: false, fast: None }.finished()
    }

    /// Returns the configuration with what follows from its settings.
    pub(super) fn finished(self) -> Self {
        let Common { rules, skip, .. } = &self.common;
        let fast = match &**rules {
            [rule] if skip.is_none() && !self.is_chargeable => rule.fast_plan().cloned(),
            _ => None,
        };
        Self { fast, ..self }
    }

    /// Returns whether charges may be refunded after all rules have admitted a request: by a handler, or by its response.
    pub(super) fn may_refund(&self) -> bool {
        let may_refund = |rule: &Rule| rule.settings.settles() || rule.settings.wait.is_some();
        self.is_chargeable || self.common.rules.iter().any(may_refund)
    }
}
