//! What callers do: check, reserve, refund and use permits.

use std::fmt;

use super::{CAPACITY, QUOTA, RECEIPTS, Receipt, Rule, charge};
use crate::{
    admissions::{Admission, Admissions, Units},
    search::Model,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) debt: Units,
    pub(super) admissions: Admissions<Receipt>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Charge { cost: Units, within: Units },
    Refund { permits: Units, cost: Units, at: Units },
    Use { cost: Units, at: Units },
    Wait,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Charge { cost, within: 0 } => write!(f, "check {cost}"),
            Self::Charge { cost, within } => write!(f, "reserve {cost} within {within}"),
            Self::Refund { permits, cost, at } => write!(f, "refund {permits} of {cost} at {at:+}"),
            Self::Use { cost, at } => write!(f, "use {cost} at {at:+}"),
            Self::Wait => write!(f, "wait"),
        }
    }
}

/// Returns the costs that are asked for, and within which time.
pub(super) fn charges() -> impl Iterator<Item = (Units, Units)> {
    (1..=QUOTA.burst).flat_map(|cost| [(cost, 0), (cost, QUOTA.horizon)])
}

impl Model for Rule {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State { debt: 0, admissions: Admissions::new() }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        let mut add = |step, mut state: State| {
            state.admissions.fold(QUOTA.increment);
            steps.push((step, state));
        };
        let may_charge = state.admissions.open().count() < RECEIPTS;
        for (cost, within) in charges().filter(|_| may_charge) {
            if let Some((at, mark)) = charge(state.debt, cost, within) {
                let mut next = State { debt: mark, ..state.clone() };
                next.admissions.add(at, cost, Some(Receipt { cost, mark }));
                add(Step::Charge { cost, within }, next);
            }
        }
        for (place, Admission { at, .. }, receipt) in state.admissions.open() {
            let cost = receipt.cost;
            for permits in 1..=cost {
                let back = self.back(state.debt, at, receipt, permits);
                if back > 0 {
                    let mut next = State { debt: state.debt - back, ..state.clone() };
                    next.admissions.settle(place, cost - permits);
                    add(Step::Refund { permits, cost, at }, next);
                }
            }
            let mut next = state.clone();
            next.admissions.settle(place, cost);
            add(Step::Use { cost, at }, next);
        }
        let mut next = State { debt: (state.debt - 1).max(0), ..state.clone() };
        next.admissions.wait(|admission| {
            let receipt = admission.open.map(|it| Receipt { mark: it.mark - 1, ..it });
            receipt.filter(|receipt| self.may_come_back(admission.at, *receipt))
        });
        add(Step::Wait, next);
        steps
    }

    fn exceeds(&self, state: &State) -> bool {
        state.admissions.largest_debt(QUOTA.increment) > CAPACITY
    }
}
