//! All that a layer and its services share.

use std::{fmt, sync::Arc};

use crate::{
    in_flight::{self, InFlightRule},
    key::Head,
    observe::Outcome,
    report::Observer,
    respond::Answers,
    rule::{Flag, Rule},
};

type SkipFn = Arc<dyn Fn(Head<'_>) -> bool + Send + Sync>;

/// All that a layer and its services share.
#[derive(Clone)]
pub(crate) struct Config {
    /// In the order in which they are asked. None if there are only limits on requests in flight.
    pub(crate) rules: Box<[Rule]>,
    /// In the order in which they are asked.
    pub(crate) in_flight: Vec<InFlightRule>,
    pub(crate) skip: Option<SkipFn>,
    pub(crate) answers: Answers,
    /// Whether the decisions are inserted into the extensions.
    pub(crate) has_decisions: bool,
    /// Whether handlers get a `Charge`.
    pub(crate) is_chargeable: bool,
    pub(crate) observer: Observer,
    /// Of requests in flight.
    pub(crate) in_flight_observer: Option<in_flight::ObserveFn>,
    /// Shared with all clones.
    pub(crate) is_off: Arc<Flag>,
}

impl Config {
    pub(crate) fn new(rules: Box<[Rule]>) -> Self {
        Self {
            rules,
            in_flight: Vec::new(),
            skip: None,
            answers: Answers::default(),
            has_decisions: false,
            is_chargeable: false,
            observer: Observer::default(),
            in_flight_observer: None,
            is_off: Arc::default(),
        }
    }

    /// Returns whether a request passes without being counted. Reports it.
    pub(crate) fn passes(&self, head: Head<'_>) -> bool {
        let passes = self.is_off.get() || self.skip.as_ref().is_some_and(|skip| skip(head));
        if passes {
            for rule in &self.rules {
                self.observer.not_asked(rule, Outcome::Bypassed, head);
            }
            self.in_flight.iter().for_each(|rule| rule.report_not_asked(Outcome::Bypassed));
        }
        passes
    }

    /// Returns the rule of a layer that has one rule, which neither waits nor settles.
    pub(crate) fn only_rule(&self) -> Option<&Rule> {
        match (&*self.rules, &*self.in_flight) {
            ([rule], []) if !self.is_chargeable && rule.settings.is_plain() => Some(rule),
            _ => None,
        }
    }

    /// Returns whether charges may be refunded after all rates have admitted a request: by a handler, by its response, or
    /// because too many are in flight.
    pub(crate) fn may_refund(&self) -> bool {
        let may_refund = |rule: &Rule| rule.settings.settles() || rule.settings.wait.is_some();
        self.is_chargeable || !self.in_flight.is_empty() || self.rules.iter().any(may_refund)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields, so that the compiler asks of a new one whether it is printed.
        let Self {
            rules,
            in_flight,
            skip: _,
            answers: Answers { refuse: _, headers, grpc },
            has_decisions: _,
            is_chargeable: _,
            observer: _,
            in_flight_observer: _,
            is_off,
        } = self;
        f.debug_struct("RateLimitLayer")
            .field("rules", rules)
            .field("in_flight", in_flight)
            .field("headers", headers)
            .field("grpc", grpc)
            .field("is_off", is_off)
            .finish_non_exhaustive()
    }
}
