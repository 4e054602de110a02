//! Limits on how many requests are in flight at once.
//!
//! An [`InFlightRule`] is a limiter and the key under which it counts requests. A layer [has](crate::RateLimitLayer::in_flight)
//! any number of them beside its rates. A permit is held until the response's body has ended or was dropped; a handler that
//! goes on after that [holds](RequestPermit::hold) it longer. The chapter [`in_flight`](crate::guide::in_flight) of the guide
//! has the cases of streams, upgrades and work after the response.

mod ask;
mod enter;
mod event;
mod hold;
mod live;
mod operate;
mod permits;
mod report;
mod signal;
mod watch;

use std::{fmt, sync::Arc, time::Duration};

use limiter_core::{InFlightLimiter, OnStoreFailure, Timer};

use self::live::Live;
pub(crate) use self::{
    ask::{InFlightAsk, admitted, refused},
    permits::Permits,
    watch::Hold,
};
pub use self::{
    enter::Enter,
    event::{InFlightEvent, InFlightEventKind},
    hold::{HoldGuard, RequestPermit},
    watch::PermitLost,
};
use crate::{
    key::{Head, KeyExtractor},
    rule::{Disclosure, Mode, Task},
};

type LimitFn = Arc<dyn Fn(Head<'_>, u32) -> u32 + Send + Sync>;
pub(crate) type ObserveFn = Arc<dyn Fn(&InFlightEvent<'_>) + Send + Sync>;
type SpawnFn = Arc<dyn Fn(Task) + Send + Sync>;

/// Limits how many requests of a key are in flight at once.
///
/// A rule is a value, as [`Rule`](crate::Rule) is. A [`RateLimitLayer`](crate::RateLimitLayer) asks it about each request,
/// and a handler or a queue consumer [enters](Self::enter) it itself. Clones are one rule: they share its states, limit,
/// mode and metrics.
///
/// It has no cost, no wait, no settlement and no block: each request takes one permit, and gives it back.
///
/// ```
/// use limiter_tower::{ClientIp, InFlight, InFlightRule, MemoryLimiter, Policy, Quota, RateLimitLayer};
///
/// let api = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
/// let uploads = InFlightRule::new(InFlight::new("uploads", 3)?, ClientIp::peer());
/// let layer = RateLimitLayer::new(api, ClientIp::peer()).in_flight(uploads.clone());
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
    /// What all clones share.
    live: Arc<Live>,
    limiter: Arc<dyn InFlightLimiter>,
    key: Arc<dyn KeyExtractor>,
    limit: Option<LimitFn>,
    disclosure: Disclosure,
    on_store_failure: OnStoreFailure,
    is_strict: bool,
    is_unavailable: bool,
    max_hold: Option<MaxHold>,
    observer: Option<ObserveFn>,
    /// That of the layer that has the rule.
    layer_observer: Option<ObserveFn>,
    /// Spawns tasks in place of Tokio.
    spawn: Option<SpawnFn>,
}

/// The longest time that a permit is held.
#[derive(Clone)]
struct MaxHold {
    timer: Arc<dyn Timer>,
    hold: Duration,
}

impl InFlightRule {
    /// Returns a rule that counts requests in flight under `key`, and refuses those for which there is no room.
    pub fn new(limiter: impl InFlightLimiter + 'static, key: impl KeyExtractor + 'static) -> Self {
        let settings = Settings {
            live: Arc::new(Live::new(limiter.name())),
            limiter: Arc::new(limiter),
            key: Arc::new(key),
            limit: None,
            disclosure: Disclosure::default(),
            on_store_failure: OnStoreFailure::default(),
            is_strict: false,
            is_unavailable: false,
            max_hold: None,
            observer: None,
            layer_observer: None,
            spawn: None,
        };
        Self { settings: Arc::new(settings) }
    }

    /// Sets the limit of each request. `limit` receives the request and the limiter's own limit, which is the default. A
    /// limit of zero refuses.
    ///
    /// ```
    /// use limiter_tower::{InFlight, InFlightRule, key::FixedKey};
    ///
    /// // Batch jobs leave a fifth of the limit to users.
    /// let service = InFlightRule::new(InFlight::new("service", 100)?, FixedKey::new("all"))
    ///     .limit_by(|head, own| if head.path() == "/batch" { own * 4 / 5 } else { own });
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    #[must_use]
    pub fn limit_by(self, limit: impl Fn(Head<'_>, u32) -> u32 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.limit = Some(Arc::new(limit)))
    }

    /// Sets for which keys the rule is enforced, for all clones. The default is all keys. A shadow takes permits and
    /// reports what it would refuse.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        self.live().mode.set(mode);
        self
    }

    /// Sets how much of the rule's decisions clients see. The default is all.
    #[must_use]
    pub fn disclose(self, disclosure: Disclosure) -> Self {
        self.with(|settings| settings.disclosure = disclosure)
    }

    /// Sets what follows while the limiter's store fails: see [`Rule::on_store_failure`](crate::Rule::on_store_failure).
    #[must_use]
    pub fn on_store_failure(self, choice: OnStoreFailure) -> Self {
        self.with(|settings| settings.on_store_failure = choice)
    }

    /// Ends a request that has lost its permit, so that no more than the limit are ever in flight.
    ///
    /// Through a store, a permit is lost if it can't be renewed for too long. Without this setting, the request goes on, and
    /// the loss is only reported. With it, the inner service's future is dropped and the client receives 503; if the
    /// response has begun, its body ends with [`PermitLost`], so that no client takes a part of it for the whole. What a
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

    /// Gives a permit back that was held for `hold`, and reports it: a bound on what a leak costs, to be set far above the
    /// longest request. The request goes on, unless the rule is [strict](Self::strict).
    ///
    /// It needs a Tokio runtime with its timer. Without one, the permit is held until the work has ended.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn max_hold(self, hold: Duration) -> Self {
        self.max_hold_on(limiter_core::SystemClock::new(), hold)
    }

    /// As `max_hold`, by another clock, for tests and simulations.
    #[doc(hidden)]
    #[must_use]
    pub fn max_hold_on(self, timer: impl Timer + 'static, hold: Duration) -> Self {
        self.with(|settings| settings.max_hold = Some(MaxHold { timer: Arc::new(timer), hold }))
    }

    /// Calls `observer` with what the rule does with each request and with what becomes of its permits, in place of an
    /// earlier observer. It is called on the request's path and when permits are dropped, so it must neither block nor
    /// panic. [`RateLimitLayer::observe_in_flight`](crate::RateLimitLayer::observe_in_flight) observes all rules of a layer.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&InFlightEvent<'_>) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.observer = Some(Arc::new(observer)))
    }

    /// Returns the rule as one of a layer with this observer.
    pub(crate) fn in_layer(self, observer: Option<ObserveFn>) -> Self {
        self.with(|settings| settings.layer_observer = observer)
    }

    /// Spawns the tasks of `max_hold` by `spawn` in place of Tokio, for tests and simulations.
    #[doc(hidden)]
    #[must_use]
    pub fn spawn_by(self, spawn: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.spawn = Some(Arc::new(spawn)))
    }

    /// Returns what all clones share.
    pub(crate) fn live(&self) -> &Live {
        &self.settings.live
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl fmt::Debug for InFlightRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightRule")
            .field("name", &self.name())
            .field("limit", &self.limit())
            .field("mode", &self.mode())
            .field("is_strict", &self.settings.is_strict)
            .field("disclosure", &self.settings.disclosure)
            .field("on_store_failure", &self.settings.on_store_failure)
            .finish_non_exhaustive()
    }
}
