//! Changes and inspects a rule while requests are served.

use std::sync::atomic::Ordering;

use limiter_core::{Error, Key, LimiterFuture, Occupancy};

use super::InFlightRule;
use crate::{
    decisions::{Decisions, InFlightDecision},
    key::{Head, MissingKey},
    rule::Mode,
};

/// Changes and inspects a rule while requests are served.
impl InFlightRule {
    /// Returns the rule's name, which is the limiter's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spec().name()
    }

    /// Returns the limiter's own limit.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limiter().limit()
    }

    /// Sets the limiter's own limit from now on, in all clones. Requests in flight go on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if `limit` is zero.
    pub fn set_limit(&self, limit: u32) -> Result<(), Error> {
        self.limiter().set_limit(limit)
    }

    /// Returns for which keys the rule is enforced.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.spec().live.mode()
    }

    /// Sets for which keys the rule is enforced, in all clones.
    pub fn set_mode(&self, mode: Mode) {
        self.spec().live.set_mode(mode);
    }

    /// Returns the key under which the rule counts a request, for [`peek`](Self::peek) and [`reset`](Self::reset).
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has none.
    pub fn key<'r>(&self, head: impl Into<Head<'r>>) -> Result<Key<'r>, MissingKey> {
        self.spec().key.key(head.into())
    }

    /// Returns how many permits of `key` are held, under the limiter's own limit. With a store, the answer has to be
    /// awaited.
    pub fn peek(&self, key: &Key<'_>) -> LimiterFuture<Occupancy> {
        self.limiter().peek(key, self.limit())
    }

    /// Forgets the permits of `key`. Requests in flight go on. With a store, it has to be awaited.
    pub fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.limiter().reset(key)
    }

    /// Returns how many permits this process holds, of all keys.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.settings.shared.held.load(Ordering::Relaxed)
    }

    /// Returns what the rule decided about a request: the last decision, if it was asked by several layers.
    #[must_use]
    pub fn decision_in<'d>(&self, decisions: &'d Decisions) -> Option<&'d InFlightDecision> {
        decisions
            .in_flight()
            .rev()
            .find(|decided| std::sync::Arc::ptr_eq(&decided.rule, &self.spec().live.name))
    }
}
