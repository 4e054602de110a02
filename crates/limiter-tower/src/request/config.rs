//! All that a layer of rates and its services share.

use std::{fmt, sync::Arc};

use crate::{
    key::Head,
    observe::Outcome,
    plan::Plan,
    respond::Answers,
    rule::{Flag, Rule},
};

pub(crate) type SkipFn = Arc<dyn Fn(Head<'_>) -> bool + Send + Sync>;

/// All that a layer of rates and its services share.
#[derive(Clone)]
pub(crate) struct Config {
    /// In the order in which they are asked.
    pub(crate) rules: Box<[Rule]>,
    pub(crate) skip: Option<SkipFn>,
    pub(crate) answers: Answers,
    /// Whether the decisions are inserted into the extensions.
    pub(crate) has_decisions: bool,
    /// Whether handlers get a `Charge`.
    pub(crate) is_chargeable: bool,
    /// Shared with all clones.
    pub(crate) is_off: Arc<Flag>,
    /// The plan of the only rule, if nothing follows from its decision but fields or a refusal.
    pub(crate) fast: Option<Plan>,
}

impl Config {
    pub(crate) fn new(rules: Box<[Rule]>) -> Self {
        Self {
            rules,
            skip: None,
            answers: Answers::default(),
            has_decisions: false,
            is_chargeable: false,
            is_off: Arc::default(),
            fast: None,
        }
        .finished()
    }

    /// Returns the configuration with what follows from its settings.
    pub(crate) fn finished(self) -> Self {
        let fast = match &*self.rules {
            [rule] if self.skip.is_none() && !self.has_decisions && !self.is_chargeable => {
                rule.fast_plan().cloned()
            }
            _ => None,
        };
        Self { fast, ..self }
    }

    /// Returns whether a request passes without being counted. Reports it.
    pub(crate) fn passes(&self, head: Head<'_>) -> bool {
        let passes = self.is_off.get() || self.skip.as_ref().is_some_and(|skip| skip(head));
        if passes {
            self.rules.iter().for_each(|rule| rule.report_not_asked(Outcome::Bypassed, head));
        }
        passes
    }

    /// Returns whether charges may be refunded after all rules have admitted a request: by a handler, or by its response.
    pub(crate) fn may_refund(&self) -> bool {
        let may_refund = |rule: &Rule| rule.settings.settles() || rule.settings.wait.is_some();
        self.is_chargeable || self.rules.iter().any(may_refund)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields, so that the compiler asks of a new one whether it is printed.
        let Self { rules, skip: _, answers, has_decisions: _, is_chargeable: _, is_off, fast: _ } =
            self;
        f.debug_struct("RateLimitLayer")
            .field("rules", rules)
            .field("answers", answers)
            .field("is_off", is_off)
            .finish_non_exhaustive()
    }
}
