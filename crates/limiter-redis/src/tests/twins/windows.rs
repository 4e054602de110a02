//! The twins of the fixed window, the aligned window and the sliding counter: one window a key, over the
//! texts that the scripts write.

use std::time::Duration;

use limiter_core::{Cost, Policy, Timestamp, Usage, algorithms::WindowKind};

use super::{
    one_window::{Counts, OneWindow},
    twin::{self, Twin},
};
use crate::state::{Family, State};

/// A transition, its state, and how that is written.
pub(super) struct Windows {
    algorithm: OneWindow,
    state: Counts,
    now: i128,
    /// The text of a state that was neither charged nor given back.
    found: Option<String>,
    /// Whether the count of the previous window fades, and is written.
    fades: bool,
}

impl Windows {
    pub(super) fn new(policy: &Policy, index: usize, kind: WindowKind) -> Self {
        let limit = &policy.limits()[index];
        let algorithm = OneWindow::new(kind, limit.quota(), limit.horizon());
        let fades = kind == WindowKind::Sliding;
        Self { algorithm, state: Counts::default(), now: 0, found: None, fades }
    }

    /// Returns the counts of a text, `None` if it is no state.
    fn parse(&self, text: &str) -> Option<Counts> {
        let family = if self.fades { Family::SlidingCounter } else { Family::FixedWindow };
        let State::Window(window) = State::parse(family, text)? else { return None };
        let [end, length, reach] =
            [window.end, window.length, window.reach].map(|it| nanos(it.into()));
        let (current, previous) = (window.count, window.previous.unwrap_or(0));
        Some(Counts { end, window: length, reach, current, previous })
    }

    /// Adds to what a check was charged what makes it a lease. Returns how many permits that is, and the time until
    /// the window ends.
    pub(super) fn lease(&mut self, [cost, wanted, little]: [i128; 3]) -> [i128; 2] {
        let room = self.usage()[1] + cost;
        let permits = wanted.min(if room > little { room / 2 } else { room }).max(cost);
        if permits > cost {
            self.charge(permits - cost, self.now);
        }
        [permits, micros(self.state.end) - self.now]
    }

    /// Returns the numbers of the state, and for how long it matters; none of a fresh one.
    fn numbers(&self) -> Option<(Vec<i128>, i128)> {
        let Counts { end, window, reach, current, previous } = self.state;
        let mut numbers = vec![micros(end), micros(window), micros(reach), current.into()];
        numbers.extend(self.fades.then_some(i128::from(previous)));
        let until = match (current, previous) {
            (0, 0) => end.saturating_sub(window),
            (0, _) => end,
            _ if self.fades => end + window,
            _ => end,
        };
        (end > 0).then(|| (numbers, micros(until)))
    }
}

fn nanos(micros: i128) -> u64 {
    u64::try_from(micros.saturating_mul(1_000)).unwrap_or(u64::MAX)
}

fn micros(nanos: u64) -> i128 {
    i128::from(nanos) / 1_000
}

fn at(micros: i128) -> Timestamp {
    Timestamp::from_nanos(nanos(micros))
}

fn wait(time: Duration) -> i128 {
    // A fraction of a microsecond is waited for.
    i128::try_from(time.as_nanos().div_ceil(1_000)).unwrap()
}

impl Twin for Windows {
    fn read(&mut self, text: Option<&str>, now: i128) -> bool {
        (self.state, self.now, self.found) = (Counts::default(), now, None);
        let Some(text) = text else { return true };
        let found = self.parse(text);
        let is_possible = found.as_ref().is_some_and(|it| self.algorithm.is_possible(it, at(now)));
        self.state = found.unwrap_or_else(|| {
            let mut own = Counts::default();
            self.algorithm.charge(&mut own, at(now), Cost::ONE);
            Counts { end: u64::MAX, ..own }
        });
        self.algorithm.advance(&mut self.state, at(now));
        self.state = self.algorithm.at(self.state, nanos(now));
        self.found = Some(text.to_owned()).filter(|_| is_possible);
        is_possible
    }

    fn is_foreign(&self) -> bool {
        self.algorithm.longest_delay(&self.state, at(self.now)).is_zero()
    }

    fn fits(&self, cost: i128, from: i128) -> Option<i128> {
        let cost = Cost::new(cost.max(1).try_into().unwrap()).unwrap();
        Some(from + wait(self.algorithm.wait(&self.state, at(from), cost)?))
    }

    fn charge(&mut self, cost: i128, moment: i128) -> i128 {
        self.found = None;
        let cost = Cost::new(cost.try_into().unwrap()).unwrap();
        micros(self.algorithm.charge(&mut self.state, at(moment), cost)) - self.now
    }

    fn refund(&mut self, charge: &twin::Charge, mark: i128) -> (i128, bool) {
        self.found = None;
        let permits = u64::try_from(charge.permits).unwrap();
        let charged = (u64::try_from(charge.cost).unwrap(), nanos(charge.taken_at + mark));
        let (back, is_whole) =
            self.algorithm.give_back(&mut self.state, at(self.now), charged, permits);
        (back.into(), is_whole)
    }

    fn usage(&self) -> [i128; 2] {
        let usage: Usage = self.algorithm.usage(&self.state, at(self.now));
        [wait(usage.reset_after()), usage.remaining().into()]
    }

    fn text(&self) -> (String, i128) {
        let Some((numbers, until)) = self.numbers() else { return ("-".to_owned(), 0) };
        let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        (self.found.clone().unwrap_or_else(|| words.join(" ")), until - self.now)
    }
}
