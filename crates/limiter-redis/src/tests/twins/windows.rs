//! The twins of the fixed window, the aligned window and the sliding counter: the transitions of
//! `limiter-core`, over the texts that the scripts write.

use std::time::Duration;

use limiter_core::{
    Cost, Policy, Timestamp, Usage,
    algorithm::{Charge, Counts, FixedWindow, Marks, SlidingCounter, Transition, Window},
};

use super::model::{Twin, digits};

/// A transition, its state, and how that is written.
pub(super) struct Windows<A: Transition> {
    algorithm: A,
    state: A::State,
    now: i128,
    /// The text of a state that was neither charged nor given back.
    found: Option<String>,
}

/// A state that is written as numbers.
pub(super) trait Numbers: Sized {
    /// Returns the state of these numbers if a quota can have them.
    fn of(numbers: &[i128]) -> Option<Self>;

    /// Returns a state of the quota that wrote this one, which that can't have left.
    fn impossible(self) -> Self;

    /// Returns the numbers, and for how long the state matters; none of a fresh one.
    fn numbers(&self) -> Option<(Vec<i128>, i128)>;
}

impl Windows<FixedWindow> {
    pub(super) fn fixed(policy: &Policy, index: usize, aligned: bool) -> Self {
        let limit = &policy.limits()[index];
        let algorithm = FixedWindow::new(limit.quota(), limit.horizon(), aligned);
        Self { algorithm, state: Window::default(), now: 0, found: None }
    }
}

impl Windows<SlidingCounter> {
    pub(super) fn counter(policy: &Policy, index: usize) -> Self {
        let limit = &policy.limits()[index];
        let algorithm = SlidingCounter::new(limit.quota(), limit.horizon());
        Self { algorithm, state: Counts::default(), now: 0, found: None }
    }
}

const MOST: i128 = 158_112_000_000_000;

fn is_quota(window: i128, reach: i128) -> bool {
    (1_000..=31_622_400_000_000).contains(&window)
        && (window..=189_734_400_000_000).contains(&reach)
}

impl Numbers for Window {
    fn of(numbers: &[i128]) -> Option<Self> {
        let &[end, window, reach, count] = numbers else { return None };
        let is_possible = is_quota(window, reach) && count <= MOST;
        let [end, window, reach] = [end, window, reach].map(nanos);
        is_possible.then(|| Self { end, window, reach, count: count.try_into().unwrap() })
    }

    fn impossible(self) -> Self {
        Self { end: u64::MAX, ..self }
    }

    fn numbers(&self) -> Option<(Vec<i128>, i128)> {
        let Self { end, window, reach, count } = *self;
        let numbers = vec![micros(end), micros(window), micros(reach), count.into()];
        let until = if count == 0 { end.saturating_sub(window) } else { end };
        (end > 0).then(|| (numbers, micros(until)))
    }
}

impl Numbers for Counts {
    fn of(numbers: &[i128]) -> Option<Self> {
        let &[end, window, reach, current, previous] = numbers else { return None };
        let is_possible = is_quota(window, reach) && current <= MOST && previous <= MOST;
        let [end, window, reach] = [end, window, reach].map(nanos);
        let [current, previous] = [current, previous].map(|count| count.try_into().unwrap_or(0));
        is_possible.then_some(Self { end, window, reach, current, previous })
    }

    fn impossible(self) -> Self {
        Self { end: u64::MAX, ..self }
    }

    fn numbers(&self) -> Option<(Vec<i128>, i128)> {
        let Self { end, window, reach, current, previous } = *self;
        let times = [end, window, reach].map(micros);
        let numbers = times.into_iter().chain([current.into(), previous.into()]).collect();
        let until = match (current, previous) {
            (0, 0) => end.saturating_sub(window),
            (0, _) => end,
            _ => end + window,
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

impl<A: Transition<State: Numbers>> Twin for Windows<A> {
    fn read(&mut self, text: Option<&str>, now: i128) -> bool {
        (self.state, self.now, self.found) = (A::State::default(), now, None);
        let Some(text) = text else { return true };
        let words: Vec<_> = text.split(' ').collect();
        let numbers: Option<Vec<_>> = words.iter().map(|word| digits(word)).collect();
        let found = numbers.filter(|_| words[0].len() == 16).and_then(|all| A::State::of(&all));
        let is_possible = found.as_ref().is_some_and(|it| self.algorithm.is_possible(it, at(now)));
        self.state = found.unwrap_or_else(|| {
            let mut own = A::State::default();
            self.algorithm.charge(&mut own, at(now), Cost::ONE);
            own.impossible()
        });
        self.algorithm.advance(&mut self.state, at(now));
        self.found = Some(text.to_owned()).filter(|_| is_possible);
        is_possible
    }

    fn is_foreign(&self) -> bool {
        self.algorithm.longest_delay(&self.state).is_zero()
    }

    fn fits(&self, cost: i128, from: i128) -> Option<i128> {
        let cost = Cost::new(cost.max(1).try_into().unwrap()).unwrap();
        Some(from + wait(self.algorithm.wait(&self.state, at(from), cost)?))
    }

    fn charge(&mut self, cost: i128, moment: i128) -> i128 {
        self.found = None;
        let cost = Cost::new(cost.try_into().unwrap()).unwrap();
        micros(self.algorithm.charge(&mut self.state, at(moment), cost).first()) - self.now
    }

    fn refund(&mut self, charge: &super::model::Charge, mark: i128) -> i128 {
        self.found = None;
        let permits = u64::try_from(charge.permits).unwrap();
        let cost = Cost::new(charge.cost.try_into().unwrap()).unwrap();
        let marks = Marks::one(nanos(charge.taken_at + mark));
        let charge = Charge { at: at(charge.at), cost, marks };
        self.algorithm.refund(&mut self.state, at(self.now), &charge, permits).into()
    }

    fn usage(&self) -> [i128; 2] {
        let usage: Usage = self.algorithm.usage(&self.state, at(self.now));
        [wait(usage.reset_after()), usage.remaining().into()]
    }

    fn text(&self) -> (String, i128) {
        let Some((numbers, until)) = self.state.numbers() else { return ("-".to_owned(), 0) };
        let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        (self.found.clone().unwrap_or_else(|| words.join(" ")), until - self.now)
    }
}
