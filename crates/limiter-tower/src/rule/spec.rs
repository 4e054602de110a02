//! What rules of both kinds have: of rates, and of requests in flight.

use std::{sync::Arc, time::Instant};

use limiter_core::{Error, ErrorKind, Key, LimiterFuture};

use super::{Disclosure, Live, Mode, OnStoreFailure};
use crate::{
    key::{Head, KeyExtractor, KeySource, MissingKey},
    observe::{Event, Outcome, log},
    plan::Plan,
};

pub(crate) type ObserveFn = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What rules of both kinds have.
#[derive(Clone)]
pub(crate) struct Spec {
    /// What all clones share.
    pub(crate) live: Arc<Live>,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) disclosure: Disclosure,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) observer: Option<ObserveFn>,
}

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

impl Spec {
    pub(crate) fn new(name: &str, key: Arc<dyn KeyExtractor>) -> Self {
        Self {
            live: Arc::new(Live::new(name)),
            key,
            disclosure: Disclosure::default(),
            on_store_failure: OnStoreFailure::default(),
            observer: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.live.name
    }

    pub(crate) fn source(&self) -> KeySource {
        self.key.source()
    }

    /// Returns an error if a client can choose the rule's key, and none of `others` bounds what it gets by that: a rule
    /// with a key of the client's own that counts all requests, and is enforced for as many keys.
    pub(crate) fn check_bounds<'o>(
        &self,
        mut others: impl Iterator<Item = &'o Self>,
    ) -> Result<(), Error> {
        let percent = |spec: &Self| spec.live.mode().percent();
        let bounds = |other: &Self| {
            other.source() == KeySource::Own
                && !other.key.skips()
                && percent(other) >= percent(self)
        };
        if !self.source().is_chosen() || others.any(bounds) {
            return Ok(());
        }
        let fault = format!(
            "a client can choose its key by the rule {:?}, so it has any number of allowances: add a rule by address, \
             enforced for as many keys, or call `assume_verified` on the key if an outer layer verifies it",
            self.name()
        );
        Err(Error::new(ErrorKind::InvalidSetting, fault))
    }

    /// Returns an error if the key is a secret, and the limiter, of this store, refuses secrets.
    pub(crate) fn check_secret<T>(
        &self,
        store: &str,
        ask: impl FnOnce(&Key<'_>) -> LimiterFuture<T>,
    ) -> Result<(), Error> {
        if store == "memory" || !self.key.is_secret() {
            return Ok(());
        }
        // Never polled, so a store receives nothing.
        match ask(&Key::secret("")).take_ready() {
            Some(Err(error)) if error.kind() == ErrorKind::InvalidSetting => {
                let name = self.name();
                let fault = format!(
                    "the rule {name:?} has a secret key, which its limiter can't hide: {error}"
                );
                Err(Error::new(ErrorKind::InvalidSetting, fault))
            }
            _ => Ok(()),
        }
    }

    /// Returns the key under which a request is counted, `None` if it is not counted.
    pub(crate) fn counted_key<'r>(&self, head: Head<'r>) -> Result<Option<Key<'r>>, MissingKey> {
        match self.key.key(head) {
            Ok(key) => Ok(Some(key)),
            Err(MissingKey::Skipped) => Ok(None),
            Err(missing) => {
                self.log_missing_key(&missing);
                // A shadow never answers a client.
                if self.live.mode() == Mode::SHADOW { Ok(None) } else { Err(missing) }
            }
        }
    }

    fn log_missing_key(&self, missing: &MissingKey) {
        if matches!(missing, MissingKey::Server(_)) && self.live.missing_key_logged.turn_on() {
            log::no_key_by_server(self.name(), missing);
        } else {
            log::no_key(self.name(), missing);
        }
    }

    /// Returns whether the rule is enforced for `key`.
    pub(crate) fn enforces(&self, key: &Key<'_>) -> bool {
        self.live.mode().enforces(self.name(), key)
    }

    /// Returns what follows from an error.
    pub(crate) fn on_error(&self, error: &Error) -> OnError {
        let is_of_store = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Undetermined | ErrorKind::Unexpected
        );
        match self.on_store_failure {
            _ if !is_of_store => OnError::Reject,
            OnStoreFailure::Allow => OnError::Forward,
            OnStoreFailure::Deny => OnError::Deny,
        }
    }

    /// Logs an error, once for each outage, and returns what becomes of the request.
    pub(crate) fn failed(&self, error: &Error, is_shadow: bool) -> Outcome {
        let follows = self.on_error(error);
        if follows == OnError::Reject {
            if self.live.misconfiguration_logged.turn_on() {
                log::misconfigured(self.name(), error);
            }
        } else if self.live.store.failed(Instant::now()) {
            log::store_failed(self.name(), self.on_store_failure, error);
        }
        match follows {
            OnError::Forward => Outcome::ErrorAllowed,
            _ if is_shadow => Outcome::ErrorAllowed,
            OnError::Deny => Outcome::ErrorDenied,
            OnError::Reject => Outcome::Rejected,
        }
    }

    /// Notes that the store returned a decision.
    pub(crate) fn store_decided(&self) {
        if self.live.store.answered(Instant::now) {
            log::store_recovered(self.name());
        }
    }

    /// Returns whether anything receives events.
    pub(crate) const fn is_observed(&self) -> bool {
        cfg!(feature = "metrics") || self.observer.is_some()
    }

    /// Returns an event of the rule, whose limiter is in this store, without details.
    pub(crate) fn event<'a>(
        &'a self,
        store: &'static str,
        outcome: Outcome,
        head: Head<'a>,
    ) -> Event<'a> {
        Event {
            rule: self.name(),
            policy: None,
            store,
            outcome,
            key: None,
            decision: None,
            occupancy: None,
            error: None,
            elapsed: None,
            head,
        }
    }

    /// Returns an event of a rate under this plan, without details.
    pub(crate) fn rate_event<'a>(
        &'a self,
        plan: &'a Plan,
        outcome: Outcome,
        head: Head<'a>,
    ) -> Event<'a> {
        Event { policy: Some(plan.policy()), ..self.event(plan.limiter().store(), outcome, head) }
    }

    /// Reports an event of the rule.
    pub(crate) fn report(&self, event: &Event<'_>) {
        #[cfg(feature = "metrics")]
        self.live.metrics.record(event);
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}
