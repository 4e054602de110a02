//! The settings of one rule of a layer.

mod choices;
mod live;
mod mode;

use std::{fmt, sync::Arc, time::Instant};

use limiter_core::{Cost, Decision, Error, ErrorKind, Key};

pub(crate) use self::live::{Flag, LiveMode, LivePlan};
pub use self::{
    choices::{Disclosure, OnMissing, OnStoreFailure},
    mode::Mode,
};
pub use crate::wait::Wait;
use crate::{
    key::{Head, KeyExtractor, MissingKey},
    observe::{log, watch::StoreWatch},
    plan::Plan,
};

/// Returns the cost of a request.
pub(crate) type CostFn = Arc<dyn Fn(Head<'_>) -> Cost + Send + Sync>;
/// Returns the plan that applies to a request, or `None` for the rule's own.
pub(crate) type PlanFn = Arc<dyn Fn(Head<'_>) -> Option<Plan> + Send + Sync>;

/// What follows when a limiter returns an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    /// The request is forwarded: the store failed.
    Forward,
    /// The request is refused: the store failed.
    Deny,
    /// The request is rejected, because the server is not set up to decide: retries can't help.
    Reject,
}

#[derive(Clone)]
pub(crate) struct Rule {
    /// The name that its policy had at first.
    pub(crate) name: Arc<str>,
    pub(crate) plan: LivePlan,
    pub(crate) mode: LiveMode,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) missing: OnMissing,
    pub(crate) wait: Option<Wait>,
    pub(crate) cost: Option<CostFn>,
    pub(crate) select: Option<PlanFn>,
    pub(crate) disclosure: Disclosure,
    pub(crate) on_store_failure: OnStoreFailure,
    /// Whether a fault of the server that leaves requests without a key was logged.
    missing_key_logged: Flag,
    /// Whether a configuration error of the limiter was logged.
    misconfiguration_logged: Flag,
    pub(crate) store: Arc<StoreWatch>,
}

impl Rule {
    pub(crate) fn new(
        plan: Plan,
        key: Arc<dyn KeyExtractor>,
        missing: OnMissing,
        wait: Option<Wait>,
    ) -> Self {
        Self {
            name: plan.policy().name().into(),
            plan: LivePlan::new(plan),
            mode: LiveMode::default(),
            key,
            missing,
            wait,
            cost: None,
            select: None,
            disclosure: Disclosure::default(),
            on_store_failure: OnStoreFailure::default(),
            missing_key_logged: Flag::default(),
            misconfiguration_logged: Flag::default(),
            store: Arc::default(),
        }
    }

    /// Returns the key under which a request is counted, `None` if it is not counted.
    pub(crate) fn key<'r>(&self, head: Head<'r>) -> Result<Option<Key<'r>>, MissingKey> {
        let found = self.key.key(head).inspect_err(|missing| self.log_missing_key(missing));
        self.or_missing(found)
    }

    /// Returns what the choice for requests without a key makes of an extractor's result.
    fn or_missing<'r>(
        &self,
        found: Result<Key<'r>, MissingKey>,
    ) -> Result<Option<Key<'r>>, MissingKey> {
        match (found, self.missing) {
            (Ok(key), _) => Ok(Some(key)),
            // No extractor returns the key of no parts.
            (Err(MissingKey::Absent(_)), OnMissing::Shared) => Ok(Some(Key::tuple([]))),
            (Err(MissingKey::Absent(_)), OnMissing::Allow) => Ok(None),
            // Without a key, a shadow or a sample has nothing to decide by.
            (Err(_), _) if self.mode.get() != Mode::ENFORCE => Ok(None),
            (Err(missing), _) => Err(missing),
        }
    }

    /// Returns what the rule would decide on a request, if it is enforced for it and its limiter knows
    /// without a call to its store.
    pub(crate) fn preview(&self, head: Head<'_>) -> Option<Decision> {
        let key = self.or_missing(self.key.key(head)).ok().flatten();
        let key = key.filter(|key| self.enforces(key))?;
        self.with_plan(head, |plan| plan.limiter().preview(&key, self.cost(head)))
    }

    /// Lends the plan that applies to a request.
    pub(crate) fn with_plan<T>(&self, head: Head<'_>, use_: impl FnOnce(&Plan) -> T) -> T {
        match self.select.as_ref().and_then(|select| select(head)) {
            Some(plan) => use_(&plan),
            None => self.plan.with(use_),
        }
    }

    pub(crate) fn plan(&self, head: Head<'_>) -> Plan {
        let selected = self.select.as_ref().and_then(|select| select(head));
        selected.unwrap_or_else(|| self.plan.get())
    }

    /// Returns whether the rule is enforced for `key`.
    pub(crate) fn enforces(&self, key: &Key<'_>) -> bool {
        self.mode.get().enforces(&self.name, key)
    }

    pub(crate) fn cost(&self, head: Head<'_>) -> Cost {
        self.cost.as_ref().map_or(Cost::ONE, |cost| cost(head))
    }

    fn log_missing_key(&self, missing: &MissingKey) {
        let plan = self.plan.get();
        if matches!(missing, MissingKey::Server(_)) && self.missing_key_logged.turn_on() {
            log::no_key_by_server(plan.policy(), self.missing, missing);
        } else {
            log::no_key(plan.policy(), self.missing, missing);
        }
    }

    /// Reports an error, and returns what follows.
    pub(crate) fn failed(&self, plan: &Plan, error: &Error) -> OnError {
        let is_of_store = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Undetermined | ErrorKind::Unexpected
        );
        if !is_of_store {
            if self.misconfiguration_logged.turn_on() {
                log::misconfigured(plan.policy(), error);
            }
            return OnError::Reject;
        }
        if self.store.failed(Instant::now()) {
            log::store_failed(plan.policy(), self.on_store_failure, error);
        }
        match self.on_store_failure {
            OnStoreFailure::Allow => OnError::Forward,
            OnStoreFailure::Deny => OnError::Deny,
        }
    }

    /// Notes that the store returned a decision.
    pub(crate) fn store_decided(&self, plan: &Plan) {
        if self.store.answered(Instant::now) {
            log::store_recovered(plan.policy());
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("plan", &self.plan.get())
            .field("mode", &self.mode.get())
            .field("missing", &self.missing)
            .field("wait", &self.wait)
            .field("disclosure", &self.disclosure)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}
