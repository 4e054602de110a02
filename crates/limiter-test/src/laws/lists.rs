//! The laws over lists of demands, for any store.
//!
//! The oracle keeps what was charged. It repeats that for a fresh key of each limiter alone, and asks there.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use limiter_core::{
    Cost, Demand, Error, JointDecision, Key, Limiter, Policy, Timestamp, Usage, decide,
};
use proptest::{prelude::*, test_runner::TestCaseError};

use super::{Law, has_paced_slots, stays_within};
use crate::{
    lists::{ListedDemand, Lists},
    oracle::Admitted,
    subject::{EPOCH, Process},
};

/// The demands of a list for one key of one limiter, as one.
struct Group {
    state: (usize, u8),
    turn: usize,
    /// Has to fit.
    cost: Cost,
    charge: Option<Cost>,
    /// Their places in the list.
    places: Vec<usize>,
}

/// When permits were charged, under which policy, and how many.
type Charged = (Timestamp, usize, Cost);

/// The limiters of a scenario, each under all of its policies, and what was charged.
struct Run<'a, P> {
    store: &'a P,
    handles: Vec<Vec<Arc<dyn Limiter>>>,
    now: Timestamp,
    charged: BTreeMap<(usize, u8), Vec<Charged>>,
    replays: u64,
}

/// Laws 1, 2, 3, 6 and 7 for lists: a list is admitted exactly if each of its limiters alone admits its part, whatever
/// the order of the demands. A refusal charges nothing, and its wait is exact.
///
/// `make` makes the limiters, each with states of its own in the store of the process.
pub fn lists_are_charged_all_or_none(
    store: &impl Process,
    make: impl FnMut(&Policy) -> Arc<dyn Limiter>,
    scenario: &Lists,
) -> Law {
    let mut run = Run::new(store, make, scenario)?;
    for list in &scenario.lists {
        run.pass(Duration::from_nanos(list.gap));
        // What two policies admit of one key together depends on their spans, and not every store decides on it.
        let Some(groups) = run.groups(&list.demands) else { continue };
        let wait = run.follows_the_oracle(&list.demands, &groups)?;
        let is_paced = groups.iter().any(|group| run.is_paced(group));
        if let Some(wait) = wait.filter(|wait| *wait < YEAR && !wait.is_zero() && !is_paced)
            && list.retries
        {
            run.pass(wait - run.store.tick());
            let early = run.follows_the_oracle(&list.demands, &groups)?;
            prop_assert_eq!(early, Some(run.store.tick()), "a tick before {:?}", wait);
            run.pass(run.store.tick());
            let retried = run.follows_the_oracle(&list.demands, &groups)?;
            prop_assert_eq!(retried, Some(Duration::ZERO), "after {:?}", wait);
        }
    }
    run.stays_within_the_bounds()?;
    run.refunds_the_last_list()
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

impl<'a, P: Process> Run<'a, P> {
    fn new(
        store: &'a P,
        mut make: impl FnMut(&Policy) -> Arc<dyn Limiter>,
        scenario: &Lists,
    ) -> Result<Self, TestCaseError> {
        let mut handles = Vec::new();
        for (index, limiter) in scenario.limiters.iter().enumerate() {
            // Policies of one name would share states in a store that knows them by name.
            let own = Policy::all_of(&format!("limiter {index}"), [limiter.policy.clone()]);
            let own = own.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let first = make(&own);
            let others = limiter.others.iter().map(|policy| first.with_policy(policy));
            let others = others.collect::<Result<Vec<_>, Error>>();
            let others = others.map_err(|error| TestCaseError::fail(error.to_string()))?;
            handles.push([first].into_iter().chain(others).collect());
        }
        let now = Timestamp::from_nanos(3_600_000_000_000).saturating_add(EPOCH);
        store.set_clock(now);
        Ok(Self { store, handles, now, charged: BTreeMap::new(), replays: 0 })
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
        self.store.set_clock(self.now);
    }

    fn handle(&self, limiter: usize, turn: usize) -> &Arc<dyn Limiter> {
        let handles = self.handles.get(limiter).expect("it was built");
        handles.get(turn % handles.len()).expect("it is below the length")
    }

    /// Returns the demands by their states, or `None` if two policies ask about one.
    fn groups(&self, demands: &[ListedDemand]) -> Option<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        let sum = |one: Cost, other: Cost| Cost::of(one.get().saturating_add(other.get()));
        for (place, asked) in demands.iter().enumerate() {
            let state = (asked.limiter, asked.key);
            let charge = (!asked.only_asks).then_some(asked.cost);
            let policy = |turn| self.handle(asked.limiter, turn).policy();
            match groups.iter_mut().find(|group| group.state == state) {
                Some(group) if policy(group.turn) != policy(asked.turn) => return None,
                Some(group) => {
                    group.cost = sum(group.cost, asked.cost);
                    group.charge = match (group.charge, charge) {
                        (Some(one), Some(other)) => Some(sum(one, other)),
                        (one, other) => one.or(other),
                    };
                    group.places.push(place);
                }
                None => groups.push(Group {
                    state,
                    turn: asked.turn,
                    cost: asked.cost,
                    charge,
                    places: vec![place],
                }),
            }
        }
        Some(groups)
    }

    fn decide(&self, user: &str, demands: &[ListedDemand]) -> Result<JointDecision, Error> {
        let demands = demands.iter().map(|asked| {
            let (limiter, key) = (self.handle(asked.limiter, asked.turn), key(user, asked.key));
            let demand = if asked.only_asks { Demand::only_ask } else { Demand::new };
            demand(limiter, key, asked.cost)
        });
        let mut decided = decide(&demands.collect::<Vec<_>>());
        match decided.as_ready() {
            Some(Err(_)) => decided.take_ready().expect("it is ready"),
            _ => Ok(self.store.wait_for(decided)),
        }
    }

    /// Decides on a list, in its order and in the opposite one, and compares with each limiter alone. Returns the wait.
    fn follows_the_oracle(
        &mut self,
        demands: &[ListedDemand],
        groups: &[Group],
    ) -> Result<Option<Duration>, TestCaseError> {
        let mut waits = Vec::new();
        for group in groups {
            waits.push(self.wait_alone(group)?);
        }
        let longest = waits.iter().try_fold(Duration::ZERO, |one, wait| Some(one.max((*wait)?)));
        let before = self.usages(groups);
        let joint = self.decide("own", demands).expect("the list is valid");
        let reversed: Vec<_> = demands.iter().rev().copied().collect();
        let other = self.decide("reversed", &reversed).expect("the list is valid");

        prop_assert_eq!(joint.is_admitted(), longest == Some(Duration::ZERO), "{:?}", &waits);
        prop_assert_eq!(other.is_admitted(), joint.is_admitted(), "in the opposite order");
        if self.store.lists_are_one_step() {
            prop_assert_eq!(joint.retry_after(), longest);
            prop_assert_eq!(other.retry_after(), longest, "in the opposite order");
            let last = demands.len() - 1;
            for (group, wait) in groups.iter().zip(&waits) {
                for place in &group.places {
                    let decision = joint.decision(*place).expect("all were asked");
                    prop_assert_eq!(decision.retry_after(), *wait);
                    prop_assert_eq!(other.decision(last - place), Some(decision), "reversed");
                }
            }
        }
        if joint.is_admitted() {
            self.has_receipts(joint, groups)?;
        } else {
            prop_assert_eq!(joint.into_receipts().count(), 0);
            let after = self.usages(groups);
            // What was charged in turn was refunded, which may leave an empty window.
            let remaining =
                |usages: &[Usage]| usages.iter().map(Usage::remaining).collect::<Vec<_>>();
            prop_assert_eq!(remaining(&after), remaining(&before), "a refusal has charged");
            if self.store.lists_are_one_step() {
                prop_assert_eq!(after, before, "a refusal has written");
            }
        }
        Ok(longest)
    }

    /// Checks that the first demand of each state that was charged has the receipt, and notes the charges.
    fn has_receipts(&mut self, joint: JointDecision, groups: &[Group]) -> Law {
        let receipts: BTreeMap<_, _> =
            joint.into_receipts().map(|(place, receipt)| (place, receipt.permits())).collect();
        let mut expected = BTreeMap::new();
        for group in groups {
            if let (Some(charge), Some(first)) = (group.charge, group.places.first()) {
                expected.insert(*first, charge.get());
                let charged = self.charged.entry(group.state).or_default();
                charged.push((self.now, group.turn, charge));
            }
        }
        prop_assert_eq!(receipts, expected);
        Ok(())
    }

    /// Returns how long the part of one limiter would have to wait alone.
    fn wait_alone(&mut self, group: &Group) -> Result<Option<Duration>, TestCaseError> {
        self.replays += 1;
        let key = key("replay", self.replays);
        let limiter = group.state.0;
        for (at, turn, cost) in self.charged.get(&group.state).into_iter().flatten() {
            self.store.set_clock(*at);
            let again = self.store.wait_for(self.handle(limiter, *turn).check_n(&key, *cost));
            prop_assert!(again.is_admitted(), "{} at {:?} was admitted before", cost, at);
        }
        self.store.set_clock(self.now);
        let decided = self.handle(limiter, group.turn).check_n(&key, group.cost);
        Ok(self.store.wait_for(decided).retry_after())
    }

    fn usages(&self, groups: &[Group]) -> Vec<Usage> {
        let usage = |group: &Group| {
            let (limiter, number) = group.state;
            self.store.wait_for(self.handle(limiter, group.turn).peek(&key("own", number)))
        };
        groups.iter().map(usage).collect()
    }

    fn is_paced(&self, group: &Group) -> bool {
        has_paced_slots(self.handle(group.state.0, group.turn).policy())
    }

    fn stays_within_the_bounds(&self) -> Law {
        for ((limiter, _), charged) in &self.charged {
            let mut admitted = Admitted::by_ticks_of(self.store.tick());
            for (at, turn, cost) in charged {
                admitted.set_clock(*at);
                admitted.add(self.handle(*limiter, *turn).policy(), *cost);
            }
            stays_within(&admitted)?;
        }
        Ok(())
    }

    /// Charges one permit of each limiter, gives them back by the receipts, and finds as many permits as before.
    fn refunds_the_last_list(&self) -> Law {
        let demands: Vec<ListedDemand> = (0..self.handles.len())
            .map(|limiter| ListedDemand {
                limiter,
                turn: 0,
                key: 0,
                cost: Cost::ONE,
                only_asks: false,
            })
            .collect();
        let remaining = || {
            let usage = |limiter| {
                self.store.wait_for(self.handle(limiter, 0).peek(&key("own", 0_u8))).remaining()
            };
            (0..self.handles.len()).map(usage).collect::<Vec<_>>()
        };
        let before = remaining();
        let joint = self.decide("own", &demands).expect("the list is valid");
        for (index, receipt) in joint.into_receipts() {
            let back = self.store.wait_for(self.handle(index, 0).refund(receipt));
            prop_assert_eq!(back, 1);
        }
        prop_assert_eq!(remaining(), before);
        Ok(())
    }
}

/// Returns a key, which is a user's own or of an oracle.
fn key(user: &str, number: impl Into<u64>) -> Key<'static> {
    Key::from((user.to_owned(), number.into()))
}
