//! What the handles of a limiter share, apart from the way to the store.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{Error, LimiterId, Policy};
use tokio::runtime::Handle as Runtime;

use crate::{
    call::{
        denials::Denials,
        detours::Detours,
        fallback::{FailurePolicy, Local},
    },
    client::credentials::Hidden,
    events::{Event, Events},
    fallback_log::FallbackLog,
    keys::Keys,
    observer::{Observer, ObserverQueue},
    scripts::Scripts,
};

/// The settings of a limiter, all of which are fixed before it exists.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) key_secret: Option<Hidden<Vec<u8>>>,
    pub(crate) deadline: Duration,
    pub(crate) failure_policy: FailurePolicy,
    /// The capacity of the cache of denials.
    pub(crate) denials: usize,
    pub(crate) batching: bool,
    /// Whether permits are leased.
    pub(crate) lease: bool,
    /// Of how many keys permits are leased.
    pub(crate) lease_keys: usize,
    /// After how many failures in a row the circuit breaker opens.
    pub(crate) failures: u32,
    /// How long the circuit breaker then refuses calls.
    pub(crate) open: Duration,
    pub(crate) observer: Option<Hidden<Arc<Observer<Event>>>>,
    pub(crate) scripts: Arc<Scripts>,
    /// This process's clock, if a test sets it.
    #[cfg(test)]
    pub(crate) process_clock: Option<crate::tests::store::ProcessClock>,
}

pub(crate) struct Context {
    /// Also distinguishes this limiter's receipts from those of others.
    pub(crate) id: LimiterId,
    pub(crate) settings: Settings,
    /// The policy that the limiter was built with.
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) denials: Denials,
    pub(crate) detours: Detours,
    pub(crate) events: Events,
    pub(crate) fallback_log: FallbackLog,
    pub(crate) local: Option<Local>,
}

impl Context {
    /// Returns the context of a limiter whose observer is called by a thread of `runtime`.
    pub(crate) fn new(
        id: LimiterId,
        settings: Settings,
        policy: Policy,
        runtime: &Runtime,
    ) -> Result<Self, Error> {
        let secret = settings.key_secret.as_ref().map(|secret| &*secret.0);
        let observer = settings.observer.clone();
        let observer = observer.map(|it| ObserverQueue::new(it.0, runtime.clone()));
        Ok(Self {
            id,
            keys: Keys::new(&settings.prefix, &policy, secret)?,
            denials: Denials::new(settings.denials, Instant::now()),
            detours: Detours::new(Instant::now()),
            events: Events::new(policy.name(), observer),
            fallback_log: FallbackLog::default(),
            local: settings.failure_policy.local(&policy)?,
            settings,
            policy,
        })
    }

    /// Returns the time of this process's monotonic clock.
    pub(crate) fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(clock) = &self.settings.process_clock {
            return clock.now();
        }
        Instant::now()
    }
}
