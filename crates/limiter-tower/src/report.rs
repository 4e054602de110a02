//! Reports what a rule did with a request.

use std::{sync::Arc, time::Duration};

use limiter_core::{Decision, Error, Key};

use crate::{
    head::Head,
    observe::{Event, Outcome},
    plan::Plan,
    rule::Rule,
};

pub(crate) type ObserveFn = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Who receives events: metrics, and the layer's observer.
#[derive(Clone, Default)]
pub(crate) struct Observer(pub(crate) Option<ObserveFn>);

/// What a limiter returned, if it was asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Details<'a> {
    pub(crate) key: Option<&'a Key<'a>>,
    pub(crate) decision: Option<&'a Decision>,
    pub(crate) error: Option<&'a Error>,
    pub(crate) elapsed: Option<Duration>,
}

impl Observer {
    /// Returns whether anything receives events.
    pub(crate) fn is_active(&self) -> bool {
        cfg!(feature = "metrics") || self.0.is_some()
    }

    pub(crate) fn report(
        &self,
        rule: &Rule,
        plan: &Plan,
        outcome: Outcome,
        details: Details<'_>,
        head: Head<'_>,
    ) {
        if !self.is_active() {
            return;
        }
        let Details { key, decision, error, elapsed } = details;
        let (policy, store) = (plan.policy(), plan.limiter().store());
        let rule = &rule.live().name;
        let event = Event { rule, policy, store, outcome, key, decision, error, elapsed, head };
        #[cfg(feature = "metrics")]
        crate::observe::metrics::record(&event, rule);
        if let Some(observer) = &self.0 {
            observer(&event);
        }
    }

    /// Reports that a rule was not asked.
    pub(crate) fn not_asked(&self, rule: &Rule, outcome: Outcome, head: Head<'_>) {
        if self.is_active() {
            let plan = rule.live().plan.get();
            self.report(rule, &plan, outcome, Details::default(), head);
        }
    }
}
