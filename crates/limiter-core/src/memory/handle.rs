//! A handle on what all clones and tiers of a limiter share, with every operation.

use alloc::{format, sync::Arc};
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::sync::{OnceLock, PoisonError};

use super::{
    engine::Ask,
    engines::{Compiled, Engines, Shape},
    place::{Turn, Waiter},
    queue::{Outcome, Ticket},
    store::{Dated, Moment},
};
use crate::{
    Clock, Cost, Decision, Error, ErrorKind, Policy, Receipt, Reservation, Timestamp, Usage,
    sync::RwLock,
};

/// One tier of a limiter.
pub(super) struct Handle<K: Shape, C> {
    shared: Arc<Shared<K, C>>,
    /// Zero is the policy itself.
    tier: usize,
}

struct Shared<K: Shape, C> {
    /// Tells this limiter's receipts from others'.
    id: u64,
    /// Made when it is first used: a limiter may be given another capacity and clock before.
    engines: OnceLock<Engines<K>>,
    current: RwLock<Current>,
    capacity: usize,
    clock: C,
    /// When the limiter was made, or the earliest moment that its clock was set back to since:
    /// states count from here, so that any clock leaves them room.
    origin: AtomicU64,
    /// As far back the origin may be moved, so that states have room for decades all the same: for
    /// a clock that was set back farther, time stands still until it comes here.
    earliest_origin: Timestamp,
}

/// What a receipt gives back, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Of the limiter that gave it out.
    limiter: u64,
    /// Of the key.
    hash: u64,
    /// By which it was taken.
    tier: usize,
    charge: Dated,
}

/// In nanoseconds.
const TWO_YEARS: u64 = 2 * 366 * 86_400 * 1_000_000_000;

#[derive(Clone)]
struct Current {
    policy: Policy,
    compiled: Compiled,
}

impl<K: Shape, C: Clock> Handle<K, C> {
    pub(super) fn new(policy: Policy, capacity: usize, clock: C) -> Result<Self, Error> {
        let compiled = Compiled::new(&policy)?;
        Ok(Self::with(Current { policy, compiled }, capacity, clock, 0))
    }

    fn with(current: Current, capacity: usize, clock: C, tier: usize) -> Self {
        static LIMITERS: AtomicU64 = AtomicU64::new(0);
        let now = clock.now();
        let earliest_origin = now.as_nanos().saturating_sub(TWO_YEARS);
        let shared = Shared {
            id: LIMITERS.fetch_add(1, Ordering::Relaxed),
            engines: OnceLock::new(),
            current: RwLock::new(current),
            capacity,
            clock,
            origin: AtomicU64::new(now.as_nanos()),
            earliest_origin: Timestamp::from_nanos(earliest_origin),
        };
        Self { shared: Arc::new(shared), tier }
    }

    /// Returns another limiter of the same policy, without states.
    pub(super) fn renewed<D: Clock>(&self, capacity: usize, clock: D) -> Handle<K, D> {
        Handle::with(self.current(), capacity, clock, self.tier)
    }

    pub(super) fn clock(&self) -> &C {
        &self.shared.clock
    }

    pub(super) fn capacity(&self) -> usize {
        self.shared.capacity
    }

    fn current(&self) -> Current {
        self.shared.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the policy, or the tier's.
    pub(super) fn policy(&self) -> Policy {
        let current = self.shared.current.read().unwrap_or_else(PoisonError::into_inner);
        let tier = self.tier.checked_sub(1).and_then(|index| current.policy.tiers().get(index));
        tier.unwrap_or(&current.policy).clone()
    }

    pub(super) fn tier(&self, name: &str) -> Result<Self, Error> {
        let policy = self.current().policy;
        let Some(index) = policy.tier_index(name) else {
            return Err(Error::new(
                ErrorKind::InvalidName,
                format!("the policy {:?} has no tier {name:?}", policy.name()),
            ));
        };
        Ok(Self { shared: Arc::clone(&self.shared), tier: index + 1 })
    }

    pub(super) fn replace(&self, policy: Policy) -> Result<(), Error> {
        // Before the policy is held, which this needs too.
        let engines = self.engines();
        // Held throughout: of two that come at once, the later one stays.
        let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
        let policy = current.policy.replaced_by(policy)?;
        let compiled = Compiled::new(&policy)?;
        let clock = || self.now();
        engines.replace(&compiled, self.origin(), Moment::by(&clock));
        *current = Current { policy, compiled };
        // Whoever is woken may ask for the policy.
        drop(current);
        engines.reconsider_all(&clock);
        Ok(())
    }

    #[inline]
    pub(super) fn try_acquire(&self, hash: u64, cost: Cost) -> Decision {
        self.engines().reserve(self.ask(hash, &|| self.now()), cost, Duration::ZERO).0
    }

    pub(super) fn reserve(&self, hash: u64, cost: Cost, within: Duration) -> Reservation {
        let outcome = self.engines().reserve(self.ask(hash, &|| self.now()), cost, within);
        let at = outcome.1.map(|dated| dated.charge.at);
        let delay = at.map_or(Duration::ZERO, |at| at.saturating_since(self.now()));
        self.reservation(hash, outcome, delay)
    }

    /// Returns what an outcome means to the caller.
    pub(super) fn reservation(&self, hash: u64, outcome: Outcome, delay: Duration) -> Reservation {
        let (decision, Some(charge)) = outcome else {
            return Reservation::refused(outcome.0);
        };
        let permits = charge.charge.cost.get();
        let taken = Taken { limiter: self.shared.id, hash, tier: self.tier, charge };
        Reservation::admitted(decision, delay, Receipt::of_memory(taken, permits))
    }

    pub(super) fn peek(&self, hash: u64) -> Usage {
        self.engines().peek(self.ask(hash, &|| self.now()))
    }

    /// The receipt knows the key and the tier.
    pub(super) fn refund(&self, receipt: Receipt) {
        if let Some(Taken { limiter, hash, tier, charge }) = receipt.taken()
            && limiter == self.shared.id
        {
            let clock = || self.now();
            let ask = Ask { tier, ..self.ask(hash, &clock) };
            self.engines().refund(ask, &charge, receipt.permits());
        }
    }

    pub(super) fn reset(&self, hash: u64) {
        self.engines().reset(self.ask(hash, &|| self.now()));
    }

    pub(super) fn turn(&self, hash: u64, ticket: &mut Option<Ticket>, waiter: Waiter<'_>) -> Turn {
        self.engines().turn(self.ask(hash, &|| self.now()), ticket, waiter)
    }

    pub(super) fn leave(&self, hash: u64, ticket: Ticket) {
        self.engines().leave(self.ask(hash, &|| self.now()), ticket);
    }

    #[inline]
    fn origin(&self) -> Timestamp {
        Timestamp::from_nanos(self.shared.origin.load(Ordering::Relaxed))
    }

    #[inline]
    fn engines(&self) -> &Engines<K> {
        let Shared { engines, current, capacity, .. } = &*self.shared;
        engines.get_or_init(|| {
            let current = current.read().unwrap_or_else(PoisonError::into_inner);
            Engines::new(&current.compiled, self.origin(), *capacity)
        })
    }

    /// Returns the present as the engines count it.
    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        let now = self.shared.clock.now();
        let origin = self.origin();
        if now < origin {
            let now = now.max(self.shared.earliest_origin);
            self.shared.origin.fetch_min(now.as_nanos(), Ordering::Relaxed);
        }
        Timestamp::ZERO.saturating_add(now.saturating_since(origin))
    }

    /// Returns a moment that the engines have told as the clock shows it, `None` if it never will.
    pub(super) fn by_the_clock(&self, moment: Timestamp) -> Option<Timestamp> {
        let since_origin = moment.saturating_since(Timestamp::ZERO);
        let moment = self.origin().saturating_add(since_origin);
        (moment < Timestamp::MAX).then_some(moment)
    }

    #[inline]
    fn ask<'a>(&self, hash: u64, clock: &'a dyn Fn() -> Timestamp) -> Ask<'a> {
        Ask { hash, tier: self.tier, moment: Moment::by(clock) }
    }
}

impl<K: Shape, C> Clone for Handle<K, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), tier: self.tier }
    }
}

impl<K: Shape, C> fmt::Debug for Handle<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.shared.current.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Limiter")
            .field("policy", &current.policy)
            .field("tier", &self.tier)
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}
