//! The settings of a limiter, and what its handles share.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use foldhash::{SharedSeed, quality::SeedableRandomState};
use limiter_core::{Clock, Cost, Decision, Error, LimiterId, Policy, Timestamp, Usage};

use crate::{
    client::{ScriptClient, circuit_breaker::CircuitBreaker, credentials::Hidden},
    denials::Denials,
    events::{Events, Observer},
    keys::Keys,
    scripts::Plan,
};

/// The settings of a limiter, which are fixed before it exists.
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
    pub(crate) observer: Option<Hidden<Arc<Observer>>>,
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
}

/// What the handles of a limiter of rates share, apart from the way to the store.
pub(crate) struct Context {
    /// Also distinguishes this limiter's receipts from those of others.
    pub(crate) id: LimiterId,
    pub(crate) settings: Arc<Settings>,
    /// The policy that the limiter was built with.
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) denials: Denials,
    pub(crate) plans: Plans,
    pub(crate) events: Arc<Events>,
}

impl Context {
    /// Returns the plan of a policy.
    pub(crate) fn plan(&self, policy: &Policy) -> Result<Arc<Plan>, Error> {
        self.plans.get(&self.policy, policy, self.settings.lease)
    }

    /// Returns a cached denial of a cost.
    pub(crate) fn denied(
        &self,
        plan: &Plan,
        key: &[u8],
        cost: Cost,
        now: Timestamp,
    ) -> Option<Decision> {
        let wait_after = |usage: &Usage| plan.wait_after(usage, cost);
        self.denials.find(key, &plan.policy, cost, now, wait_after)
    }

    /// Returns the time of this process's monotonic clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.settings.clock.0.now()
    }
}

/// The plans of a limiter's handles that are in use.
///
/// A program can call `with_policy` for each request: requests of one policy at the same moment then
/// share a plan.
#[derive(Default)]
pub(crate) struct Plans {
    in_use: Mutex<HashMap<Policy, Weak<Plan>>>,
    /// What identifies the states of all logs that there were, for resets.
    lists: Mutex<HashSet<Bytes>>,
}

/// Unused ones are removed when there are this many, and then whenever their number has doubled.
const FIRST_SWEEP: usize = 64;

/// How many logs are known. With more, a reset is of the first ones.
const MOST_LISTS: usize = 1_000;

impl Plans {
    /// Returns the plan of `policy`, which must have the families of the limiter's `own` policy, and its names of
    /// several limits.
    pub(crate) fn get(
        &self,
        own: &Policy,
        policy: &Policy,
        may_lease: bool,
    ) -> Result<Arc<Plan>, Error> {
        own.check_families(policy)?;
        let mut plans = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(policy).and_then(Weak::upgrade) {
            return Ok(plan);
        }
        let plan = Arc::new(Plan::new(policy, own.name(), may_lease));
        if plans.len() >= FIRST_SWEEP && plans.len() == plans.capacity() {
            plans.retain(|_, plan| plan.strong_count() > 0);
        }
        plans.insert(policy.clone(), Arc::downgrade(&plan));
        drop(plans);
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() < MOST_LISTS {
            lists.extend(plan.lists().cloned());
        }
        drop(lists);
        Ok(plan)
    }

    /// Returns what identifies the states of the limiter's logs.
    pub(crate) fn lists(&self) -> Vec<Bytes> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
