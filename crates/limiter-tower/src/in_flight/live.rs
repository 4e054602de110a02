//! What all clones of a rule share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use limiter_core::{Error, OnStoreFailure};

#[cfg(feature = "metrics")]
use crate::observe::metrics;
use crate::{
    key::MissingKey,
    observe::{log, watch::StoreWatch},
    rule::{Flag, LiveMode, OnError},
};

/// What all clones of a rule share.
pub(crate) struct Live {
    pub(crate) name: Arc<str>,
    pub(crate) mode: LiveMode,
    /// How many permits this process holds, of all keys.
    held: AtomicU64,
    store: StoreWatch,
    /// Whether a fault of the server that leaves requests without a key was logged.
    missing_key_logged: Flag,
    /// Whether a configuration error of the limiter was logged.
    misconfiguration_logged: Flag,
    /// Whether an upgrade without a hold was logged.
    upgrade_logged: Flag,
}

impl Live {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            mode: LiveMode::default(),
            held: AtomicU64::new(0),
            store: StoreWatch::default(),
            missing_key_logged: Flag::default(),
            misconfiguration_logged: Flag::default(),
            upgrade_logged: Flag::default(),
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Notes that this process holds a permit more.
    pub(super) fn taken(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        metrics::in_flight_taken(&self.name);
    }

    /// Notes that this process holds a permit less.
    pub(super) fn given_back(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        metrics::in_flight_given_back(&self.name);
    }

    /// Notes that the store answered.
    pub(super) fn store_answered(&self) {
        if self.store.answered(Instant::now) {
            log::store_recovered(&self.name);
        }
    }

    /// Logs an error, once for each outage.
    pub(super) fn log_failure(&self, follows: OnError, choice: OnStoreFailure, error: &Error) {
        if follows == OnError::Reject {
            if self.misconfiguration_logged.turn_on() {
                log::misconfigured(&self.name, error);
            }
        } else if self.store.failed(Instant::now()) {
            log::store_failed(&self.name, choice, error);
        }
    }

    pub(super) fn log_missing_key(&self, missing: &MissingKey) {
        if matches!(missing, MissingKey::Server(_)) && self.missing_key_logged.turn_on() {
            log::no_key_by_server(&self.name, missing);
        } else {
            log::no_key(&self.name, missing);
        }
    }

    pub(super) fn log_upgrade(&self) {
        if self.upgrade_logged.turn_on() {
            log::upgrade_without_hold(&self.name);
        }
    }
}
