//! Those who wait for permits, in the order in which they came.
//!
//! Here is what a queue is; what happens in it is in [`place`](super::place).

use alloc::{collections::BTreeMap, vec::Vec};
use core::{task::Waker, time::Duration};
use std::{collections::HashMap, sync::PoisonError};

use super::{
    engine::{Ask, Engine},
    place::Place,
    store::{Dated, Store},
};
use crate::{
    Cost, Decision, Timestamp,
    algorithm::Algorithm,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering},
};

/// The queues of all keys that someone waits for.
#[derive(Debug)]
pub(super) struct Queues<S> {
    shards: [Shard<S>; SHARDS],
}

/// The model checker's time grows with their number.
const SHARDS: usize = if cfg!(loom) { 2 } else { 32 };

#[derive(Debug)]
struct Shard<S> {
    /// How many queues there are. Changed under the lock, read without it by those who do not
    /// wait: whoever sees none comes before those who are about to wait.
    number: AtomicUsize,
    queues: Mutex<HashMap<u64, Queue<S>>>,
}

/// Who waits for one key. There is no queue without anyone in it.
#[derive(Debug)]
pub(super) struct Queue<S> {
    pub(super) waiting: BTreeMap<Ticket, Waiting>,
    /// Those who have had their turn and not yet seen it.
    pub(super) done: BTreeMap<Ticket, Outcome>,
    /// When the first who waits may have its turn, and when that was found out.
    pub(super) due: Timestamp,
    found_out: Timestamp,
    last_ticket: Ticket,
    /// `None` until someone asks.
    forecast: Option<Forecast<S>>,
}

/// The state as it will be when all who wait have had their turns, and when that will be.
#[derive(Debug)]
struct Forecast<S> {
    state: S,
    last: Timestamp,
}

/// A place in a queue, earlier ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Who waits for what.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) tier: usize,
    pub(super) cost: Cost,
    /// The last moment at which the permits are still of use.
    pub(super) deadline: Option<Timestamp>,
    pub(super) waker: Waker,
}

/// A decision, and what was charged by it.
pub(super) type Outcome = (Decision, Option<Dated>);

impl<S> Queues<S> {
    /// Returns whether no one waits for this key, and maybe some others.
    #[inline]
    pub(super) fn are_empty_for(&self, hash: u64) -> bool {
        self.shard(hash).number.load(Ordering::Acquire) == 0
    }

    /// Returns the keys that someone waits for.
    pub(super) fn hashes(&self) -> Vec<u64> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| lock(&shard.queues).keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Returns for how many queues there is room.
    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.shards.iter().map(|shard| lock(&shard.queues).capacity()).sum()
    }

    pub(super) fn lock(&self, hash: u64) -> Place<'_, S> {
        let shard = self.shard(hash);
        Place::new(hash, &shard.number, lock(&shard.queues))
    }

    fn shard(&self, hash: u64) -> &Shard<S> {
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "the remainder is below the length"
        )]
        &self.shards[hash as usize % SHARDS]
    }
}

impl<S> Default for Queues<S> {
    fn default() -> Self {
        let shard = |_| Shard { number: AtomicUsize::new(0), queues: Mutex::default() };
        Self { shards: core::array::from_fn(shard) }
    }
}

/// A change of a queue is complete or has not begun, so one that a panic poisoned is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Queue<S> {
    /// Takes the last place.
    pub(super) fn push(&mut self, waiting: Waiting) -> Ticket {
        self.last_ticket.0 += 1;
        self.waiting.insert(self.last_ticket, waiting);
        self.last_ticket
    }

    /// Notes how long the first has to wait from `now` on.
    pub(super) fn tell_first(&mut self, now: Timestamp, wait: Duration) {
        self.found_out = now;
        self.due = now.saturating_add(wait);
    }

    /// Returns whether the first may have its turn, or has to ask again since the clock was set
    /// back.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due <= now || now < self.found_out
    }

    /// Returns how long `cost` would have to wait behind all who wait now, `None` for ever.
    ///
    /// It takes as long as the queue is, the first time and whenever someone has left or was late.
    pub(super) fn forecast<A, T>(
        &mut self,
        engine: &Engine<A, T>,
        ask: Ask<'_>,
        now: Timestamp,
        cost: Cost,
    ) -> Option<Duration>
    where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        let forecast = match &mut self.forecast {
            Some(forecast) => forecast,
            none => {
                let (tiers, state) = engine.snapshot(ask);
                let mut forecast = Forecast { state, last: now };
                for waiting in self.waiting.values() {
                    forecast.extend(tiers.of(waiting.tier), now, waiting.cost);
                }
                none.insert(forecast)
            }
        };
        let then = forecast.last.max(now);
        let wait = engine.tiers(ask).of(ask.tier).wait(&forecast.state, then, cost)?;
        Some(then.saturating_since(now).saturating_add(wait))
    }

    /// Notes in the forecast, if there is one, that `cost` has taken the last place.
    pub(super) fn extend_forecast<A, T>(
        &mut self,
        engine: &Engine<A, T>,
        ask: Ask<'_>,
        now: Timestamp,
        cost: Cost,
    ) where
        A: Algorithm<State = S>,
        T: Store<A>,
    {
        if let Some(forecast) = &mut self.forecast {
            forecast.extend(engine.tiers(ask).of(ask.tier), now, cost);
        }
    }

    /// Forgets the forecast: what it was made from has changed.
    pub(super) fn forget_forecast(&mut self) {
        self.forecast = None;
    }
}

impl<S> Forecast<S> {
    /// Lets another one have its turn, after those before it.
    fn extend<A: Algorithm<State = S>>(&mut self, algorithm: &A, now: Timestamp, cost: Cost) {
        let then = self.last.max(now);
        if let Some(wait) = algorithm.wait(&self.state, then, cost) {
            self.last = then.saturating_add(wait);
            algorithm.advance(&mut self.state, self.last, self.last);
            algorithm.charge(&mut self.state, self.last, cost);
        }
    }
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            done: BTreeMap::new(),
            due: Timestamp::ZERO,
            found_out: Timestamp::ZERO,
            last_ticket: Ticket::default(),
            forecast: None,
        }
    }
}
