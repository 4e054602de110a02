//! All that a layer, its services and its handles share.

use std::{fmt, iter, sync::Arc, time::Duration};

use limiter_core::{Decision, Error, Policy};

use crate::{
    OnMissing,
    key::Head,
    observe::{Event, Outcome},
    plan::Plan,
    respond::{GrpcStatus, Headers, RefuseFn, ResponseHead, text},
    rule::{Flag, Mode, Rule},
    settle::{Keep, UnsentRefunds},
};

pub(crate) type SkipFn = Arc<dyn Fn(Head<'_>) -> bool + Send + Sync>;
pub(crate) type SettleFn = Arc<dyn Fn(ResponseHead<'_>) -> Keep + Send + Sync>;
pub(crate) type ObserveFn = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Config {
    /// At least one; asked in this order.
    pub(crate) rules: Vec<Rule>,
    pub(crate) skip: Option<SkipFn>,
    pub(crate) settle: Option<SettleFn>,
    /// Whether handlers get a `Charge`.
    pub(crate) is_chargeable: bool,
    pub(crate) refuse: RefuseFn,
    pub(crate) headers: Headers,
    pub(crate) grpc_status: GrpcStatus,
    /// Whether the decisions are inserted into the extensions.
    pub(crate) has_decisions: bool,
    pub(crate) observer: Option<ObserveFn>,
    pub(crate) is_off: Flag,
    pub(crate) unsent: Arc<UnsentRefunds>,
}

impl Config {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rules: vec![rule],
            skip: None,
            settle: None,
            is_chargeable: false,
            refuse: Arc::new(text),
            headers: Headers::default(),
            grpc_status: GrpcStatus::default(),
            has_decisions: false,
            observer: None,
            is_off: Flag::default(),
            unsent: Arc::default(),
        }
    }

    /// Returns whether a request passes without being counted. Reports it.
    pub(crate) fn passes(&self, head: Head<'_>) -> bool {
        let passes = self.is_off.get() || self.skip.as_ref().is_some_and(|skip| skip(head));
        if passes && self.is_observed() {
            for rule in &self.rules {
                self.report(
                    rule,
                    &rule.plan.get(),
                    Outcome::Bypassed,
                    EventDetails::default(),
                    head,
                );
            }
        }
        passes
    }

    /// Returns a policy or limit name that `policy` shares with a rule other than `own`. Header fields
    /// identify decisions by these names, so they must be unique.
    pub(crate) fn taken_name(&self, policy: &Policy, own: Option<&str>) -> Option<String> {
        let names = |policy: &Policy| {
            let limits = policy.limits().iter().map(|limit| limit.name().to_owned());
            iter::once(policy.name().to_owned()).chain(limits).collect::<Vec<_>>()
        };
        let others = self.rules.iter().filter(|rule| own.is_none_or(|own| own != &*rule.name));
        let taken: Vec<String> = others.flat_map(|rule| names(rule.plan.get().policy())).collect();
        names(policy).into_iter().find(|name| taken.contains(name))
    }

    /// Returns whether the charges of the rule at `index` may have to be refunded.
    pub(crate) fn needs_receipts(&self, index: usize) -> bool {
        self.has_charge()
            || index + 1 < self.rules.len()
            // After a delay, the inner service may fail to become ready.
            || self.rules.iter().take(index).any(|rule| rule.wait.is_some())
    }

    pub(crate) fn has_charge(&self) -> bool {
        self.is_chargeable || self.settle.is_some()
    }

    /// Returns whether each rule whose key clients choose stands beside another one that is enforced for
    /// as many keys and that no request skips, if the rules have these modes.
    pub(crate) fn has_enough_keys(&self, mode: impl Fn(&Rule) -> Mode) -> bool {
        let (chosen, others): (Vec<_>, Vec<_>) =
            self.rules.iter().partition(|rule| rule.key.is_client_chosen());
        let enforced = |rule: &&Rule| mode(rule).percent();
        let others = others.iter().filter(|rule| rule.missing != OnMissing::Allow);
        chosen.iter().map(enforced).max() <= others.map(enforced).max()
    }

    /// Returns the rule of a layer that has one rule, delays no request and settles no charge.
    pub(crate) fn only_rule(&self) -> Option<&Rule> {
        match self.rules.as_slice() {
            [rule] if rule.wait.is_none() && !self.has_charge() => Some(rule),
            _ => None,
        }
    }

    pub(crate) fn is_observed(&self) -> bool {
        cfg!(feature = "metrics") || self.observer.is_some()
    }

    pub(crate) fn report(
        &self,
        rule: &Rule,
        plan: &Plan,
        outcome: Outcome,
        details: EventDetails<'_>,
        head: Head<'_>,
    ) {
        if !self.is_observed() {
            return;
        }
        let event = Event {
            rule: &rule.name,
            policy: plan.policy(),
            store: plan.limiter().store(),
            outcome,
            decision: details.decision,
            error: details.error,
            elapsed: details.elapsed,
            head,
        };
        #[cfg(feature = "metrics")]
        crate::observe::metrics::record(&event, &rule.name);
        if let Some(observer) = &self.observer {
            observer(&event);
        }
    }
}

/// What a limiter returned, if it was asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct EventDetails<'a> {
    decision: Option<&'a Decision>,
    error: Option<&'a Error>,
    elapsed: Option<Duration>,
}

impl<'a> EventDetails<'a> {
    pub(crate) const fn decision(decision: &'a Decision, elapsed: Option<Duration>) -> Self {
        Self { decision: Some(decision), error: None, elapsed }
    }

    pub(crate) const fn error(error: &'a Error, elapsed: Option<Duration>) -> Self {
        Self { decision: None, error: Some(error), elapsed }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("rules", &self.rules)
            .field("headers", &self.headers)
            .field("is_off", &self.is_off)
            .finish_non_exhaustive()
    }
}
