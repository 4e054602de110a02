//! Random lists of demands on several limiters of one store.

use limiter_core::{Cost, Policy};
use proptest::{collection::vec, prelude::*, strategy::Union};

use crate::{
    policies::any_alike,
    schedule::{Scenario, Step, Tick, Time, step},
};

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
