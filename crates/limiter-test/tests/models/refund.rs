//! Refunds under GCRA: a charge drains alone from its moment on, and what is left of it is returned.
//!
//! With a permit every 2 units and a burst of 3, a check of 3 permits leaves a debt of 6. A unit later 5 are left, so a
//! refund of all 3 permits lowers the debt by 5. Two more clauses are about reservations. Before its moment, a reservation
//! is returned whole or not at all. And where the debt exceeds a burst, permits that are reserved behind a charge keep
//! their moments, so the part of the charge that they need is not returned. Callers hold at most four receipts at
//! a time.

mod code;
mod steps;

use crate::{
    admissions::Units,
    search::{counterexamples, explore},
    server::Quota,
};

const QUOTA: Quota = Quota { increment: 2, burst: 3, horizon: 6 };

/// The debt of a burst.
const CAPACITY: Units = QUOTA.increment * QUOTA.burst;

/// How many receipts are held at once.
const RECEIPTS: usize = 4;

/// How many states are visited at most.
const MOST_STATES: usize = 100_000;

/// How much of a charge is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Right,
    /// Any part of a reservation is returned before its moment.
    PartOfAReservation,
    /// A charge drains until the debt with it has drained, so what it waited for is returned too.
    UpToTheMark,
    /// Reservations behind a charge do not matter.
    FromReservationsBehind,
    /// A charge never drains.
    AtAnyAge,
}

/// What a caller holds of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Receipt {
    cost: Units,
    /// When the debt ends with the charge.
    mark: Units,
}

/// Returns the moment at which a cost fits, if that is within some time, and when the debt ends with it.
fn charge(debt: Units, cost: Units, within: Units) -> Option<(Units, Units)> {
    let price = cost * QUOTA.increment;
    let at = (debt + price - CAPACITY).max(0);
    (price <= CAPACITY && at <= within).then(|| (at, debt.max(at) + price))
}

impl Rule {
    /// Returns by how much a refund lowers the debt.
    fn back(self, debt: Units, at: Units, receipt: Receipt, permits: Units) -> Units {
        let [price, whole] = [permits, receipt.cost].map(|permits| permits * QUOTA.increment);
        let left = match self {
            Self::UpToTheMark => receipt.mark,
            Self::AtAnyAge => whole,
            _ => whole - (-at).max(0),
        };
        let mut back = price.min(left).min(debt);
        if debt > CAPACITY && self != Self::FromReservationsBehind {
            let behind = debt - receipt.mark;
            back = back.min(price - behind);
        }
        if at > 0 && back < whole && self != Self::PartOfAReservation {
            return 0;
        }
        back.max(0)
    }

    /// Returns whether anything may ever be returned.
    fn may_come_back(self, at: Units, receipt: Receipt) -> bool {
        match self {
            Self::AtAnyAge => true,
            Self::UpToTheMark => receipt.mark > 0,
            _ => receipt.cost * QUOTA.increment + at > 0,
        }
    }
}

#[test]
fn the_right_rule_keeps_the_bound() {
    let explored = explore(&Rule::Right, MOST_STATES);
    println!("{} states", explored.states.len());
    assert_eq!(explored.counterexample, None);
}

/// Each wrong rule, and the shortest schedule by which it exceeds the bound.
const WRONG: [(Rule, &str); 4] = [
    (
        Rule::PartOfAReservation,
        "check 1; reserve 3 within 6; refund 1 of 3 at +2; refund 1 of 1 at +0; reserve 2 within 6",
    ),
    (
        Rule::UpToTheMark,
        "check 1; check 1; refund 1 of 1 at +0; wait; check 1; refund 1 of 1 at -1; \
         reserve 3 within 6",
    ),
    (
        Rule::FromReservationsBehind,
        "check 1; reserve 3 within 6; refund 1 of 1 at +0; reserve 1 within 6",
    ),
    (Rule::AtAnyAge, "check 1; wait; check 1; refund 1 of 1 at -1; reserve 3 within 6"),
];

#[test]
fn each_wrong_rule_exceeds_the_bound() {
    let found = counterexamples(WRONG.map(|(rule, _)| rule), MOST_STATES);
    assert_eq!(found, WRONG.map(|(_, schedule)| Some(schedule.to_owned())));
}
