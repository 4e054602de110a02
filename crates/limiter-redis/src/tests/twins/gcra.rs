//! The twin of GCRA, in the words of `gcra.lua`.

use super::twin::{Charge, Twin, digits, up};
use crate::state::{Family, State};

#[derive(Clone, Debug)]
pub(super) struct Gcra {
    /// `increment reach`, as it is written.
    quota: String,
    increment: i128,
    capacity: i128,
    scale: i128,
    now: i128,
    debt: i128,
    /// The text, debt, increment and scale of a debt that another quota wrote.
    other: Option<(String, [i128; 3])>,
}

/// Returns the debt, increment and scale of a state, and whether the quota can have left that debt;
/// `None` if it is no state.
fn parse(text: &str, now: i128) -> Option<([i128; 3], bool)> {
    let State::Gcra(state) = State::parse(Family::Gcra, text)? else { return None };
    let (tat, scale) = (i128::try_from(state.tat).ok()?, i128::from(state.scale));
    let (debt, reach) = (tat - now * scale, i128::from(state.reach));
    Some(([debt.clamp(0, reach), state.increment.into(), scale], debt <= reach))
}

/// Returns how a debt is written.
fn text_of(now: i128, debt: i128, scale: i128, quota: &str) -> String {
    let tat = now + debt / scale;
    if scale > 1 { format!("{tat}.{:04} {quota}", debt % scale) } else { format!("{tat} {quota}") }
}

impl Gcra {
    /// Makes a limit of its arguments.
    pub(super) fn open(arguments: &[&str]) -> Self {
        let [_, quota, burst, increment] = arguments.try_into().unwrap();
        let increment = digits(increment).unwrap();
        Self {
            quota: quota.trim_start().to_owned(),
            increment,
            capacity: digits(burst).unwrap() * increment,
            scale: if quota.contains('.') { 10_000 } else { 1 },
            now: 0,
            debt: 0,
            other: None,
        }
    }

    fn debt_at(&self, at: i128) -> i128 {
        let Some((_, [debt, increment, scale])) = &self.other else {
            return (self.debt - (at - self.now) * self.scale).max(0);
        };
        let debt = (debt - (at - self.now) * scale).max(0);
        up(debt * self.increment, *increment)
    }

    /// Adds to what a check was charged what makes it a lease, and returns how many permits that is.
    pub(super) fn lease(&mut self, [cost, wanted, length]: [i128; 3]) -> i128 {
        let base = (self.debt - cost * self.increment).max(length);
        let room = (self.capacity - base).div_euclid(self.increment);
        let is_little = 2 * room * self.increment <= length;
        let permits = wanted.min(if is_little { room } else { room / 2 });
        if permits <= cost {
            return cost;
        }
        self.debt = base + permits * self.increment;
        permits
    }

    /// Returns the debt that a charge left.
    pub(super) const fn charged(&self) -> i128 {
        self.debt
    }
}

impl Twin for Gcra {
    fn read(&mut self, text: Option<&str>, now: i128) -> bool {
        (self.now, self.debt, self.other) = (now, 0, None);
        let Some(text) = text else { return true };
        let Some((found, is_possible)) = parse(text, now) else {
            self.debt = self.capacity;
            return false;
        };
        let [debt, _, scale] = found;
        let writer = text.split_once(' ').unwrap().1;
        self.debt = if is_possible { debt } else { self.capacity };
        if debt > 0 && writer != self.quota {
            let text =
                if is_possible { text.to_owned() } else { text_of(now, debt, scale, writer) };
            self.other = Some((text, found));
        }
        is_possible
    }

    fn is_foreign(&self) -> bool {
        self.other.is_some()
    }

    fn fits(&self, cost: i128, from: i128) -> Option<i128> {
        let room = self.capacity - self.increment * cost;
        let excess = match &self.other {
            _ if room < 0 => return None,
            None => up(self.debt - room, self.scale),
            Some((_, [debt, increment, scale])) => {
                up(debt - room / self.increment * increment, *scale)
            }
        };
        Some(from.max(self.now + excess))
    }

    fn charge(&mut self, cost: i128, at: i128) -> i128 {
        self.debt = (at - self.now) * self.scale + self.debt_at(at) + self.increment * cost;
        self.other = None;
        self.debt
    }

    fn refund(&mut self, charge: &Charge, mark: i128) -> (i128, bool) {
        let price = self.increment * charge.permits;
        let age = self.now - charge.at;
        let drained = if age < 0 { 0 } else { (age + charge.leases) * self.scale };
        let mut given = price.min(self.increment * charge.cost - drained).min(self.debt);
        if self.debt > self.capacity {
            let behind = self.debt - (mark - (self.now - charge.taken_at) * self.scale);
            given = given.min(price - behind);
        }
        if self.other.is_some() || given <= 0 {
            return (0, false);
        }
        self.debt -= given;
        (up(given, self.increment), given == self.increment * charge.cost)
    }

    fn usage(&self) -> [i128; 2] {
        let remaining = (self.capacity - self.debt_at(self.now)).div_euclid(self.increment);
        let reset = match &self.other {
            None => up(self.debt, self.scale),
            Some((_, [debt, _, scale])) => up(*debt, *scale),
        };
        [reset, remaining.max(0)]
    }

    fn text(&self) -> (String, i128) {
        if let Some((text, [debt, _, scale])) = &self.other {
            return (text.clone(), up(*debt, *scale));
        }
        if self.debt == 0 {
            return ("-".to_owned(), 0);
        }
        let text = text_of(self.now, self.debt, self.scale, &self.quota);
        (text, up(self.debt, self.scale))
    }
}
