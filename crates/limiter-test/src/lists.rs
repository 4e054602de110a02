//! Random lists of demands on several limiters of one store.

use std::{sync::Arc, time::Duration};

use limiter_core::{Cost, Limiter, LimiterFuture, ManualClock, MemoryLimiter, Policy, Timestamp};
use proptest::{collection::vec, prelude::*, strategy::Union};

use crate::{
    policies::any_alike,
    schedule::{Scenario, Step, Tick, Time, step},
};

/// A store under test, on a clock that the test sets.
pub trait Store {
    /// Returns the smallest step of the store's clock, and the unit of its waits.
    fn tick(&self) -> Duration;

    /// Returns whether the decision over a list is one step of the store, which asks all demands and knows all waits.
    /// Otherwise only the outcome is compared.
    fn is_one_step(&self) -> bool;

    /// Returns a limiter with states of its own.
    fn limiter(&mut self, policy: &Policy) -> Arc<dyn Limiter>;

    /// Sets the clock, also to a time before the present one.
    fn set(&mut self, now: Timestamp);

    /// Waits for a result.
    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T;
}

/// Limiters in memory, which are siblings or were built apart.
#[derive(Debug)]
pub struct InMemory {
    clock: ManualClock,
    first: Option<MemoryLimiter<ManualClock>>,
    are_siblings: bool,
}

impl InMemory {
    /// Returns a store of no limiters.
    #[must_use]
    pub fn new(are_siblings: bool) -> Self {
        Self { clock: ManualClock::new(), first: None, are_siblings }
    }
}

impl Store for InMemory {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn is_one_step(&self) -> bool {
        true
    }

    fn limiter(&mut self, policy: &Policy) -> Arc<dyn Limiter> {
        if let Some(first) = self.first.as_ref().filter(|_| self.are_siblings) {
            return Arc::new(first.sibling(policy));
        }
        let builder = MemoryLimiter::builder(policy.clone()).capacity(4_096);
        // Enough entries, because those of a log would be merged.
        let builder = builder.entries_per_key(10_000).clock(self.clock.clone());
        let limiter = builder.build().expect("the settings are valid");
        Arc::new(self.first.insert(limiter).clone())
    }

    fn set(&mut self, now: Timestamp) {
        self.clock.set(now);
    }

    fn wait_for<T>(&self, mut future: LimiterFuture<T>) -> T {
        let result = future.take_ready().expect("a limiter in memory is ready");
        result.expect("a limiter in memory returns no error")
    }
}

/// One demand of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListedDemand {
    /// The index of the limiter.
    pub limiter: usize,
    /// Which of the limiter's policies asks, modulo their number.
    pub turn: usize,
    /// The key.
    pub key: u8,
    /// The permits asked for.
    pub cost: Cost,
    /// Whether they are never charged.
    pub only_asks: bool,
}

/// One list, and how far the clock moves before it.
#[derive(Clone, Debug)]
pub struct List {
    /// In nanoseconds.
    pub gap: u64,
    /// The demands.
    pub demands: Vec<ListedDemand>,
    /// Whether a refused list is repeated when it should be admitted.
    pub retries: bool,
}

/// Limiters of one store, each with policies that take turns, and lists of demands on them.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Without steps.
    pub limiters: Vec<Scenario>,
    /// In order.
    pub lists: Vec<List>,
}

/// Returns up to three limiters, and up to `most` lists of up to five demands on two keys of each.
pub fn lists(tick: Tick, most: usize) -> impl Strategy<Value = Lists> {
    vec(any_alike(), 1..=3).prop_flat_map(move |limiters| {
        let demands = limiters.iter().enumerate().flat_map(|(index, policies)| {
            let limits = policies.iter().flat_map(Policy::limits);
            limits.map(move |limit| {
                let step = step(limit, tick, Time::Forward);
                let coins = (0..2_u8, prop::bool::weighted(0.2));
                (Just(index), step, coins).boxed()
            })
        });
        let demand = Union::new(demands.collect::<Vec<_>>());
        let list = (vec(demand, 1..=5), any::<bool>(), 0..4_usize);
        let scenario = |mut policies: Vec<Policy>| Scenario {
            policy: policies.remove(0),
            others: policies,
            steps: Vec::new(),
        };
        let limiters: Vec<Scenario> = limiters.into_iter().map(scenario).collect();
        vec(list, 1..=most).prop_map(move |lists| Lists {
            limiters: limiters.clone(),
            lists: lists
                .into_iter()
                .map(|(demands, retries, turn)| list_of(demands, retries, turn))
                .collect(),
        })
    })
}

fn list_of(demands: Vec<(usize, Step, (u8, bool))>, retries: bool, turn: usize) -> List {
    // The first demand's time. The policies of a list mostly agree, so that few lists are invalid.
    let gap = demands.first().map_or(0, |(_, step, _)| step.gap.unsigned_abs());
    let demands = demands.into_iter().map(|(limiter, step, (key, only_asks))| ListedDemand {
        limiter,
        turn: if turn == 3 { step.turn } else { turn },
        key,
        cost: step.cost,
        only_asks,
    });
    List { gap, demands: demands.collect(), retries }
}
