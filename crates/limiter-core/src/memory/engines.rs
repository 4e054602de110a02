//! The engine that a policy asks for.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    cell::Cell,
    engine::{Ask, Engine},
    place::{Turn, Waiter},
    queue::{Outcome, Ticket},
    store::{Dated, Moment, Store, Tiers},
    table::Table,
};
use crate::{
    Cost, Error, Policy, Timestamp, Usage,
    algorithm::{Algorithm, FixedWindow, Gcra, Ledger, Several, Single, SlidingCounter, Tiered},
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

macro_rules! engines {
    ($($algorithm:ident)*) => {
        /// An engine of the algorithm that a policy asks for.
        pub(super) enum Engines<K: Shape> {
            $($algorithm(Engine<$algorithm, K::Store<$algorithm>>),)*
        }

        /// The algorithms of a policy and its tiers.
        #[derive(Clone)]
        pub(super) enum Compiled {
            $($algorithm(Tiers<$algorithm>),)*
        }

        impl<K: Shape> Engines<K> {
            /// Returns an engine without states, for timestamps that count from `origin` on the
            /// clock.
            pub(super) fn new(compiled: &Compiled, origin: Timestamp, capacity: usize) -> Self {
                match compiled {
                    $(Compiled::$algorithm(tiers) => {
                        Self::$algorithm(Engine::new(K::store(tiers.with_origin(origin), capacity)))
                    })*
                }
            }

            /// Goes on with other quotas, of a policy of the same shape.
            pub(super) fn replace(
                &self,
                compiled: &Compiled,
                origin: Timestamp,
                moment: Moment<'_>,
            ) {
                match (self, compiled) {
                    $((Self::$algorithm(engine), Compiled::$algorithm(tiers)) => {
                        engine.replace(tiers.with_origin(origin), moment);
                    })*
                    // Policies of one shape compile to one kind of algorithm.
                    _ => {}
                }
            }
        }

        /// Calls the engine, whichever it is.
        macro_rules! any {
            ($engines:expr, $engine:ident => $call:expr) => {
                match $engines {
                    $(Engines::$algorithm($engine) => $call,)*
                }
            };
        }
    };
}
engines!(Gcra FixedWindow SlidingCounter Ledger Several Tiered);

impl<K: Shape> Engines<K> {
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

    pub(super) fn refund(&self, ask: Ask<'_>, charge: &Dated, permits: u64) {
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
        let own = Several::new(policy.limits())?;
        if !policy.tiers().is_empty() {
            let others = policy.tiers().iter().map(|tier| Several::new(tier.limits()));
            let others = others.collect::<Result<Vec<_>, _>>()?;
            return Ok(Self::Tiered(Tiered::all(own, others).into()));
        }
        Ok(match own.limits() {
            [Single::Gcra(gcra)] => Self::Gcra((*gcra).into()),
            [Single::FixedWindow(window)] => Self::FixedWindow((*window).into()),
            [Single::SlidingCounter(counter)] => Self::SlidingCounter((*counter).into()),
            [Single::Ledger(ledger)] => Self::Ledger((*ledger).into()),
            _ => Self::Several(own.into()),
        })
    }
}
