//! Limits on how many requests are in flight at once.
//!
//! An [`InFlightRule`] is a limiter and the key under which it counts requests, and an [`InFlightLayer`] has one or several of
//! them. A permit is held until the response's body has ended or was dropped; a handler that
//! goes on after that [holds](RequestPermit::hold) it longer. The chapter [`in_flight`](crate::guide::in_flight) of the guide
//! has the cases of streams, upgrades and work after the response.

mod age;
mod ask;
pub(crate) mod body;
mod enter;
pub(crate) mod gate;
mod hold;
mod layer;
mod permits;
mod watch;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{
    Clock, Error, InFlightLimiter, Key, LimiterFuture, Occupancy, SystemClock, check_in_flight,
};

use self::age::Ages;
pub use self::{
    enter::Enter,
    hold::{HoldGuard, RequestPermit},
    layer::InFlightLayer,
    watch::PermitLost,
};
use crate::{
    decisions::{Decisions, InFlightDecision},
    key::{Head, KeyExtractor},
    observe::{Event, Outcome},
    rule::{Flag, Live, Spec, rule_methods},
};

type LimitFn = Arc<dyn Fn(Head<'_>, u32) -> u32 + Send + Sync>;

/// Limits how many requests of a key are in flight at once.
///
/// A rule is a value, as [`Rule`](crate::Rule) is. An [`InFlightLayer`] asks it about each request,
/// and a handler or a queue consumer [enters](Self::enter) it itself. Clones are one rule: they share its states, limit,
/// mode and metrics.
///
/// It has no cost, no wait, no settlement and no block: each request takes one permit, and gives it back.
///
/// ```
/// use limiter_tower::{ClientIp, InFlight, InFlightLayer, InFlightRule};
///
/// let uploads = InFlightRule::new(InFlight::new("uploads", 3)?, ClientIp::peer());
/// let layer = InFlightLayer::all([uploads.clone()]);
///
/// // While requests are served:
/// uploads.set_limit(5)?;
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct InFlightRule {
    settings: Arc<Settings>,
}

/// What is fixed before the rule is used. Changing a clone's does not change the original's.
#[derive(Clone)]
struct Settings {
    spec: Spec,
    /// What all clones share beside that.
    shared: Arc<Shared>,
    limiter: Arc<dyn InFlightLimiter>,
    limit: Option<LimitFn>,
    is_strict: bool,
    is_unavailable: bool,
    ages: Option<Arc<Ages>>,
}

/// What all clones of a rule share, beside what both kinds of rules have.
#[derive(Default)]
struct Shared {
    /// How many permits this process holds, of all keys.
    held: AtomicU64,
    /// Whether an upgrade without a hold was logged.
    upgrade_logged: Flag,
}

impl InFlightRule {
    /// Returns a rule that counts requests in flight under `key`, and refuses those for which there is no room.
    pub fn new(limiter: impl InFlightLimiter + 'static, key: impl KeyExtractor + 'static) -> Self {
        let settings = Settings {
            spec: Spec::new(limiter.name(), Arc::new(key)),
            shared: Arc::default(),
            limiter: Arc::new(limiter),
            limit: None,
            is_strict: false,
            is_unavailable: false,
            ages: None,
        };
        Self { settings: Arc::new(settings) }
    }

    /// Reports the rule under another name than its limiter's, as [`Rule::shown_as`](crate::Rule::shown_as): its permits
    /// keep the limiter's name. It returns a rule of its own, so call it first.
    ///
    /// # Errors
    ///
    /// As [`check_in_flight`].
    pub fn shown_as(self, name: &str) -> Result<Self, Error> {
        check_in_flight(name, self.limit())?;
        let live = Arc::new(Live::new(name));
        live.set_mode(self.mode());
        Ok(self.with(|settings| {
            settings.spec.live = live;
            settings.shared = Arc::default();
        }))
    }

    /// Sets the limit of each request. `limit` receives the request and the limiter's own limit, which is the default. A
    /// limit of zero refuses.
    ///
    /// ```
    /// use limiter_tower::{InFlight, InFlightRule, key::FixedKey};
    ///
    /// // Batch jobs leave a fifth of the limit to users.
    /// let service = InFlightRule::new(InFlight::new("service", 100)?, FixedKey::new("all"))
    ///     .limit_by(|head, own| if head.headers.contains_key("x-batch") { own * 4 / 5 } else { own });
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    #[must_use]
    pub fn limit_by(self, limit: impl Fn(Head<'_>, u32) -> u32 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.limit = Some(Arc::new(limit)))
    }

    /// Ends a request that has lost its permit, so that no more than the limit are in flight whose tasks run.
    ///
    /// Through a store, a permit is lost if it can't be renewed for too long. Without this setting, the request goes on, and
    /// the loss is only reported. With it, the inner service's future is dropped and the client receives 503; if the
    /// response has begun, its body ends with [`PermitLost`] when the server asks it for more, so that no client takes a part of
    /// it for the whole. A client that reads nothing therefore keeps its response: bound that by the server's write time-out.
    /// What a
    /// handler [holds](RequestPermit::hold) has to watch [`HoldGuard::lost`] itself.
    #[must_use]
    pub fn strict(self) -> Self {
        self.with(|settings| settings.is_strict = true)
    }

    /// Answers refusals with 503 in place of 429, and gRPC `UNAVAILABLE`: for a limit that is the service's own, such as
    /// one under a [shared](crate::key::KeySource::Shared) key.
    #[must_use]
    pub fn unavailable(self) -> Self {
        self.with(|settings| settings.is_unavailable = true)
    }

    /// Sets the age at which a permit stops counting, for all clones that are made after this: a bound on what a leak
    /// costs, such as a task that hangs or a client that stops reading. Set it far above the longest request.
    ///
    /// Ages are looked at only when a request finds the limit full, or the table of all keys: a permit that is too old is
    /// then given back, reported, and taken by that request. Its own request goes on, unless the rule is
    /// [strict](Self::strict): then it ends. Through a store, each process gives back its own permits.
    #[must_use]
    pub fn max_age(self, age: Duration) -> Self {
        self.max_age_by(SystemClock::new(), age)
    }

    /// As `max_age`, by another clock, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn max_age_by(self, clock: impl Clock + 'static, age: Duration) -> Self {
        let ages = Ages::new(Arc::new(clock), age);
        self.with(|settings| settings.ages = Some(Arc::new(ages)))
    }

    fn limiter(&self) -> &dyn InFlightLimiter {
        &*self.settings.limiter
    }

    fn limit_of(&self, head: Head<'_>) -> u32 {
        let own = self.limit();
        self.settings.limit.as_ref().map_or(own, |limit| limit(head, own))
    }

    /// Gives back permits that are too old, and returns whether there were some: those of `key`, or if the table of all
    /// keys is full, the oldest one.
    fn give_back_old(&self, key: &Key<'_>, is_table_full: bool) -> bool {
        let Some(ages) = &self.settings.ages else { return false };
        let mut old = ages.take_old(key);
        if old.is_empty() && is_table_full {
            old.extend(ages.take_oldest());
        }
        old.iter().for_each(|permit| permit.end_hold());
        !old.is_empty()
    }

    /// Notes that this process holds a permit more, or less.
    fn count_held(&self, is_more: bool) {
        let held = &self.settings.shared.held;
        if is_more {
            held.fetch_add(1, Relaxed)
        } else {
            held.fetch_sub(1, Relaxed)
        };
        #[cfg(feature = "metrics")]
        self.spec().live.metrics.record_in_flight(if is_more { 1.0 } else { -1.0 });
    }

    /// Returns an event without details.
    fn event<'a>(&'a self, outcome: Outcome, head: Head<'a>) -> Event<'a> {
        self.spec().event(self.limiter().store(), outcome, head)
    }

    /// Reports that the rule was not asked.
    fn report_not_asked(&self, outcome: Outcome, head: Head<'_>) {
        self.spec().report(&self.event(outcome, head));
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

/// Changes and inspects a rule while requests are served.
impl InFlightRule {
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
        self.settings.shared.held.load(Relaxed)
    }

    /// Returns what the rule decided about a request: the last decision, if it was asked by several layers.
    #[must_use]
    pub fn decision_in<'d>(&self, decisions: &'d Decisions) -> Option<&'d InFlightDecision> {
        decisions
            .in_flight()
            .rev()
            .find(|decided| Arc::ptr_eq(&decided.rule, &self.spec().live.name))
    }
}

rule_methods!(InFlightRule);

impl fmt::Debug for InFlightRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightRule")
            .field("name", &self.name())
            .field("limit", &self.limit())
            .field("mode", &self.mode())
            .field("is_strict", &self.settings.is_strict)
            .field("disclosure", &self.spec().disclosure)
            .field("on_store_failure", &self.spec().on_store_failure)
            .finish_non_exhaustive()
    }
}
