//! What the decision on a request needs of its rule.

use std::{borrow::Cow, time::Instant};

use limiter_core::{Cost, Error, ErrorKind, Key};

use super::{Mode, OnStoreFailure, Rule, Select};
use crate::{
    key::{Head, KeySource, MissingKey},
    observe::log,
    plan::Plan,
};

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

impl OnError {
    /// Returns what follows from an error, by the rule's choice for failures of its store.
    pub(crate) fn of(error: &Error, choice: OnStoreFailure) -> Self {
        let is_of_store = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Undetermined | ErrorKind::Unexpected
        );
        match choice {
            _ if !is_of_store => Self::Reject,
            OnStoreFailure::Allow => Self::Forward,
            OnStoreFailure::Deny => Self::Deny,
        }
    }
}

impl Rule {
    /// Returns the key under which a request is counted, `None` if it is not counted.
    pub(crate) fn counted_key<'r>(&self, head: Head<'r>) -> Result<Option<Key<'r>>, MissingKey> {
        match self.settings.key.key(head) {
            Ok(key) => Ok(Some(key)),
            Err(MissingKey::Skipped) => Ok(None),
            Err(missing) => {
                self.log_missing_key(&missing);
                // A shadow never answers a client.
                if self.mode() == Mode::SHADOW { Ok(None) } else { Err(missing) }
            }
        }
    }

    pub(crate) fn source(&self) -> KeySource {
        self.settings.key.source()
    }

    /// Returns whether there are requests that the rule does not count.
    pub(crate) fn skips(&self) -> bool {
        self.settings.key.skips()
    }

    /// Returns the plan that applies to a request.
    pub(crate) fn plan_of(&self, head: Head<'_>) -> Cow<'_, Plan> {
        match &self.settings.select {
            Select::Own => self.live().plan.get(),
            Select::Fixed(plan) => Cow::Borrowed(plan),
            Select::By(select) => select(head).map_or_else(|| self.live().plan.get(), Cow::Owned),
        }
    }

    /// Returns the plan that applies without a request: the rule's own, unless it is under a fixed one.
    pub(super) fn fixed_plan(&self) -> Cow<'_, Plan> {
        match &self.settings.select {
            Select::Fixed(plan) => Cow::Borrowed(plan),
            Select::Own | Select::By(_) => self.live().plan.get(),
        }
    }

    /// Returns whether the plan depends on the request.
    pub(crate) fn selects_by_request(&self) -> bool {
        matches!(self.settings.select, Select::By(_))
    }

    /// Returns whether the rule is enforced for `key`.
    pub(crate) fn enforces(&self, key: &Key<'_>) -> bool {
        self.mode().enforces(&self.live().name, key)
    }

    pub(crate) fn cost_of(&self, head: Head<'_>) -> Cost {
        self.settings.cost.as_ref().map_or(Cost::ONE, |cost| cost(head))
    }

    fn log_missing_key(&self, missing: &MissingKey) {
        if matches!(missing, MissingKey::Server(_)) && self.live().missing_key_logged.turn_on() {
            log::no_key_by_server(&self.live().name, missing);
        } else {
            log::no_key(&self.live().name, missing);
        }
    }

    /// Returns what follows from an error.
    pub(crate) fn on_error(&self, error: &Error) -> OnError {
        OnError::of(error, self.settings.on_store_failure)
    }

    /// Reports an error, and returns what follows.
    pub(crate) fn failed(&self, error: &Error) -> OnError {
        let (live, follows) = (self.live(), self.on_error(error));
        if follows == OnError::Reject {
            if live.misconfiguration_logged.turn_on() {
                log::misconfigured(&live.name, error);
            }
        } else if live.store.failed(Instant::now()) {
            log::store_failed(&live.name, self.settings.on_store_failure, error);
        }
        follows
    }

    /// Notes that the store returned a decision.
    pub(crate) fn store_decided(&self) {
        if self.live().store.answered(Instant::now) {
            log::store_recovered(&self.live().name);
        }
    }
}
