//! What the handles of a limiter share, apart from the way to the store.

use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use foldhash::{SharedSeed, quality::SeedableRandomState};
use limiter_core::{Clock, Error, LimiterId, Policy, Timestamp};

use crate::{
    client::{
        ScriptClient,
        circuit_breaker::{CircuitBreaker, Watch},
        credentials::Hidden,
    },
    events::{Event, Events},
    keys::Keys,
    local::denials::Denials,
    observer::{Observer, ObserverQueue},
    outage_log::OutageLog,
};

/// The settings of a limiter, all of which are fixed before it exists.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) key_secret: Option<Hidden<Vec<u8>>>,
    pub(crate) deadline: Duration,
    /// How many processes share the limit of requests in flight, if this one decides by its share while the store can't.
    pub(crate) local_share: Option<NonZeroU32>,
    /// The capacity of the cache of denials.
    pub(crate) denials: usize,
    pub(crate) batching: bool,
    /// Whether permits are leased.
    pub(crate) lease: bool,
    /// Of how many keys permits are leased.
    pub(crate) lease_keys: usize,
    pub(crate) observer: Option<Hidden<Arc<Observer<Event>>>>,
    /// The clock of this process, by which deadlines, leases and cached denials end.
    pub(crate) clock: Hidden<Arc<dyn Clock>>,
    /// Hashes keys, and returns all that is to look random.
    pub(crate) hasher: Hidden<SeedableRandomState>,
}

/// Returns a hasher under random seeds. With foldhash's fixed ones, which are public, keys of bytes can be prepared that
/// have equal hashes whatever the hasher's own seed is.
pub(crate) fn random_hasher() -> Hidden<SeedableRandomState> {
    let seed = RandomState::new().hash_one(());
    Hidden(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
}

/// Returns the hasher of a simulation, which is the same in each process.
pub(crate) fn seeded_hasher(seed: u64) -> Hidden<SeedableRandomState> {
    Hidden(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
}

impl Settings {
    /// Returns the hasher of keys.
    pub(crate) fn hasher(&self) -> SeedableRandomState {
        self.hasher.0.clone()
    }

    /// Returns the secret that keys the digests of secret subjects.
    pub(crate) fn secret(&self) -> Option<&[u8]> {
        self.key_secret.as_ref().map(|secret| &*secret.0)
    }

    /// Returns the circuit breaker of a client: that which limiters on it share, or a new one.
    pub(crate) fn breaker_of(&self, client: &impl ScriptClient) -> CircuitBreaker {
        let new = || {
            let clock = Arc::clone(&self.clock.0);
            CircuitBreaker::of(CircuitBreaker::DEFAULT_SILENCE, clock)
        };
        client.breaker().unwrap_or_else(new)
    }

    /// Returns what reports and logs the events of a limiter with this name, by a thread of `client`. If it
    /// `logs_breakers`, a circuit breaker that opens is logged, and otherwise each cause by which a check fails.
    pub(crate) fn events(
        &self,
        name: &str,
        (client, breaker): (&impl ScriptClient, &CircuitBreaker),
        logs_breakers: bool,
    ) -> (Arc<Events>, Arc<OutageLog>) {
        let observer = self.observer.clone();
        let observer = observer.map(|it| {
            let client = client.clone();
            ObserverQueue::new(it.0, Box::new(move |task| client.spawn_blocking(task)))
        });
        let outage_log = Arc::new(OutageLog::new(Arc::clone(&self.clock.0)));
        let breaker_log = logs_breakers.then(|| Arc::clone(&outage_log));
        let events = Arc::new(Events::new(name, observer, breaker_log));
        let watcher: Weak<dyn Watch> = Arc::<Events>::downgrade(&events);
        breaker.watch(&watcher);
        (events, outage_log)
    }
}

pub(crate) struct Context {
    /// Also distinguishes this limiter's receipts from those of others.
    pub(crate) id: LimiterId,
    pub(crate) settings: Settings,
    /// The policy that the limiter was built with.
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) denials: Denials,
    pub(crate) events: Arc<Events>,
    pub(crate) outage_log: Arc<OutageLog>,
}

impl Context {
    /// Returns the context of a limiter whose observer is called by a thread of `client`.
    pub(crate) fn new(
        id: LimiterId,
        settings: Settings,
        policy: Policy,
        on: (&impl ScriptClient, &CircuitBreaker),
    ) -> Result<Self, Error> {
        let (events, outage_log) = settings.events(policy.name(), on, false);
        Ok(Self {
            id,
            keys: Keys::new(&settings.prefix, policy.name(), settings.secret())?,
            denials: Denials::new(settings.denials, settings.hasher()),
            events,
            outage_log,
            settings,
            policy,
        })
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.settings.clock.0
    }

    /// Returns the time of this process's monotonic clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock().now()
    }
}
