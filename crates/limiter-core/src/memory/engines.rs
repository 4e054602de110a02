//! The engine that a policy asks for.

use alloc::vec::Vec;
use core::{iter, time::Duration};

use super::{
    cell::Cell,
    engine::{Ask, Engine},
    place::{Turn, Waiter},
    queue::{Outcome, Ticket},
    store::{Store, Tiers},
    table::Table,
};
use crate::{
    Cost, Error, Policy, Timestamp, Usage,
    algorithm::{Algorithm, Charge, FixedWindow, Gcra, Ledger, Several, Single, SlidingCounter},
};

/// Whether there are keys.
pub(super) trait Shape {
    /// Where the states of an algorithm are kept.
    type Store<A: Algorithm>: Store<A>;

    /// Returns an empty store with room for `capacity` keys, if there are keys.
    fn store<A: Algorithm>(tiers: Tiers<A>, capacity: usize) -> Self::Store<A>;
}

/// Many keys, one state each.
#[derive(Debug)]
pub(super) struct Keyed;

/// No keys, one state.
#[derive(Debug)]
pub(super) struct Unkeyed;

impl Shape for Keyed {
    type Store<A: Algorithm> = Table<A>;

    fn store<A: Algorithm>(tiers: Tiers<A>, capacity: usize) -> Table<A> {
        Table::new(tiers.into(), capacity)
    }
}

impl Shape for Unkeyed {
    type Store<A: Algorithm> = Cell<A>;

    fn store<A: Algorithm>(tiers: Tiers<A>, _capacity: usize) -> Cell<A> {
        Cell::new(tiers.into())
    }
}

/// An engine of the algorithm that a policy asks for.
pub(super) enum Engines<K: Shape> {
    Gcra(Engine<Gcra, K::Store<Gcra>>),
    FixedWindow(Engine<FixedWindow, K::Store<FixedWindow>>),
    SlidingCounter(Engine<SlidingCounter, K::Store<SlidingCounter>>),
    Ledger(Engine<Ledger, K::Store<Ledger>>),
    Several(Engine<Several, K::Store<Several>>),
}

/// The algorithms of a policy and its tiers.
#[derive(Clone)]
pub(super) enum Compiled {
    Gcra(Tiers<Gcra>),
    FixedWindow(Tiers<FixedWindow>),
    SlidingCounter(Tiers<SlidingCounter>),
    Ledger(Tiers<Ledger>),
    Several(Tiers<Several>),
}

macro_rules! any {
    ($engines:expr, $engine:ident => $call:expr) => {
        match $engines {
            Engines::Gcra($engine) => $call,
            Engines::FixedWindow($engine) => $call,
            Engines::SlidingCounter($engine) => $call,
            Engines::Ledger($engine) => $call,
            Engines::Several($engine) => $call,
        }
    };
}

impl<K: Shape> Engines<K> {
    /// Returns an engine without states, for timestamps that count from `origin` on the clock.
    pub(super) fn new(compiled: &Compiled, origin: Timestamp, capacity: usize) -> Self {
        fn new<K: Shape, A: Algorithm>(
            tiers: &Tiers<A>,
            origin: Timestamp,
            capacity: usize,
        ) -> Engine<A, K::Store<A>> {
            Engine::new(K::store(tiers.with_origin(origin), capacity))
        }
        match compiled {
            Compiled::Gcra(tiers) => Self::Gcra(new::<K, _>(tiers, origin, capacity)),
            Compiled::FixedWindow(tiers) => Self::FixedWindow(new::<K, _>(tiers, origin, capacity)),
            Compiled::SlidingCounter(tiers) => {
                Self::SlidingCounter(new::<K, _>(tiers, origin, capacity))
            }
            Compiled::Ledger(tiers) => Self::Ledger(new::<K, _>(tiers, origin, capacity)),
            Compiled::Several(tiers) => Self::Several(new::<K, _>(tiers, origin, capacity)),
        }
    }

    /// Goes on with other quotas, of a policy of the same shape.
    pub(super) fn replace(&self, compiled: &Compiled, origin: Timestamp) {
        macro_rules! replace {
            ($($algorithm:ident)*) => {
                match (self, compiled) {
                    $((Self::$algorithm(engine), Compiled::$algorithm(tiers)) => {
                        engine.replace(tiers.with_origin(origin));
                    })*
                    // Policies of one shape compile to one kind of algorithm.
                    _ => {}
                }
            };
        }
        replace!(Gcra FixedWindow SlidingCounter Ledger Several);
    }

    pub(super) fn reconsider_all(&self, clock: &dyn Fn() -> Timestamp) {
        any!(self, engine => engine.reconsider_all(clock));
    }

    #[inline]
    pub(super) fn reserve(&self, ask: Ask<'_>, cost: Cost, within: Duration) -> Outcome {
        any!(self, engine => engine.reserve(ask, cost, within))
    }

    pub(super) fn peek(&self, ask: Ask<'_>) -> Usage {
        any!(self, engine => engine.peek(ask))
    }

    pub(super) fn refund(&self, ask: Ask<'_>, charge: &Charge, permits: u64) {
        any!(self, engine => engine.refund(ask, charge, permits));
    }

    pub(super) fn reset(&self, ask: Ask<'_>) {
        any!(self, engine => engine.reset(ask));
    }

    pub(super) fn turn(
        &self,
        ask: Ask<'_>,
        ticket: &mut Option<Ticket>,
        waiter: Waiter<'_>,
    ) -> Turn {
        any!(self, engine => engine.turn(ask, ticket, waiter))
    }

    pub(super) fn leave(&self, ask: Ask<'_>, ticket: Ticket) {
        any!(self, engine => engine.leave(ask, ticket));
    }
}

impl Compiled {
    pub(super) fn new(policy: &Policy) -> Result<Self, Error> {
        // The algorithms of each limit, that of the policy first, then those of the tiers.
        let mut limits = Vec::new();
        for (index, limit) in policy.limits().iter().enumerate() {
            let tiers = policy.tiers().iter().filter_map(|tier| tier.limits().get(index));
            let family = iter::once(limit).chain(tiers).map(|limit| (limit.kind(), *limit.quota()));
            limits.push(Single::family(&family.collect::<Vec<_>>())?);
        }
        macro_rules! only {
            ($($algorithm:ident)*) => {
                match limits.as_slice() {
                    $([only] if let Some(Single::$algorithm(policy)) = only.first() => {
                        let others = only.iter().skip(1).filter_map(|other| match other {
                            Single::$algorithm(other) => Some(*other),
                            _ => None,
                        });
                        Self::$algorithm(Tiers::new(*policy, others))
                    })*
                    several => {
                        let tier = |index| several.iter().filter_map(move |limit| limit.get(index));
                        let tier = |index| Several::of(tier(index).copied().collect());
                        Self::Several(Tiers::new(tier(0), (1..=policy.tiers().len()).map(tier)))
                    }
                }
            };
        }
        Ok(only!(Gcra FixedWindow SlidingCounter Ledger))
    }
}
