//! The right rule is that of GCRA in memory and of the scripts.

use std::{collections::BTreeSet, slice, time::Duration};

use limiter_core::{
    Cost, Quota, Timestamp,
    algorithms::{AnyTransition, Charge, Gcra, KeyStates, State, Transition, operate},
};

use super::{CAPACITY, MOST_STATES, QUOTA, Receipt, Rule, charge, steps::charges};
use crate::{
    admissions::Units,
    search::explore,
    server::{Key, Refund},
};

/// The debts that the model reaches, and the refunds that it tries there.
fn reached() -> (BTreeSet<Units>, BTreeSet<(Units, Refund)>) {
    let states = explore(&Rule::Right, MOST_STATES).states;
    let refunds = states.iter().flat_map(|state| {
        let open = state.admissions.open();
        open.flat_map(move |(_, admission, Receipt { cost, mark })| {
            let at = admission.at;
            let refund = move |permits| Refund { permits, cost, at, length: 0, mark };
            (1..=cost).map(move |permits| (state.debt, refund(permits)))
        })
    });
    (states.iter().map(|state| state.debt).collect(), refunds.collect())
}

fn back(debt: Units, refund: &Refund) -> Units {
    let &Refund { permits, cost, at, mark, .. } = refund;
    Rule::Right.back(debt, at, Receipt { cost, mark }, permits)
}

/// A key in memory, where a unit is a second.
struct InMemory {
    gcra: AnyTransition,
    state: State,
}

fn moment(units: Units) -> Timestamp {
    const NOW: Units = 1_000;
    Timestamp::from_nanos(0).saturating_add(seconds(NOW + units))
}

fn seconds(units: Units) -> Duration {
    Duration::from_secs(units.try_into().unwrap())
}

fn permits(number: Units) -> Cost {
    Cost::of(number.try_into().unwrap())
}

impl InMemory {
    /// Returns a key whose debt ends at a moment.
    fn new(end: Units) -> (Self, u64) {
        let quota = Quota::new(1, seconds(QUOTA.increment)).unwrap();
        let quota = quota.try_with_burst(QUOTA.burst.try_into().unwrap()).unwrap();
        let gcra = AnyTransition::Gcra(Gcra::new(&quota, seconds(QUOTA.horizon)));
        let mut state = State::default();
        let at = moment(end - QUOTA.increment);
        let mark = gcra.charge(&mut state, at, at, Cost::ONE);
        (Self { gcra, state }, mark)
    }

    fn operate<R>(&mut self, operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R) -> R {
        let (limit, state) = (slice::from_ref(&self.gcra), slice::from_mut(&mut self.state));
        operate(limit, state, moment(0), operation)
    }

    fn debt(&mut self) -> Duration {
        self.operate(|states| states.usage()).reset_after()
    }
}

#[test]
fn charges_in_memory_follow_the_rule() {
    for debt in reached().0 {
        for (cost, within) in charges() {
            let mut key = InMemory::new(debt).0;
            let within_time = seconds(within);
            let charged = key.operate(|states| {
                let _ = states.take(permits(cost), within_time);
                states.charges()
            });
            let expected = charge(debt, cost, within);
            let what = format!("{cost} within {within} on {debt}");
            assert_eq!(charged.map(|it| it.at()), expected.map(|(at, _)| moment(at)), "{what}");
            assert_eq!(key.debt(), seconds(expected.map_or(debt, |(_, end)| end)), "{what}");
        }
    }
}

#[test]
fn refunds_in_memory_follow_the_rule() {
    let refunds = reached().1;
    println!("{} refunds", refunds.len());
    for (debt, refund) in refunds {
        let mut key = InMemory::new(debt).0;
        let at = moment(refund.at);
        let mark = InMemory::new(refund.mark).1;
        let found = Charge { made: at.min(moment(0)), at, cost: permits(refund.cost), mark };
        let number = refund.permits.try_into().unwrap();
        key.operate(|states| states.refund(&found.into(), number));
        assert_eq!(key.debt(), seconds(debt - back(debt, &refund)), "{refund:?} on {debt}");
    }
}

#[test]
fn charges_by_the_script_follow_the_rule() {
    for debt in reached().0 {
        for (cost, within) in charges() {
            let mut key = Key::new(QUOTA, debt, 0);
            let expected = charge(debt, cost, within);
            let what = format!("{cost} within {within} on {debt}");
            assert_eq!(key.reserve(cost, within), expected, "{what}");
            assert_eq!(key.debt(), expected.map_or(debt, |(_, end)| end), "{what}");
        }
    }
}

#[test]
fn refunds_by_the_script_follow_the_rule() {
    for (debt, refund) in reached().1 {
        let mut key = Key::new(QUOTA, debt, 0);
        key.refund(&refund);
        assert_eq!(key.debt(), debt - back(debt, &refund), "{refund:?} on {debt}");
    }
}

#[test]
fn the_model_reaches_the_largest_debt() {
    assert_eq!(reached().0.last(), Some(&(CAPACITY + QUOTA.horizon)));
}
