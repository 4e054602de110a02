//! Random schedules, beside the oracle.

use std::time::Duration;

use limiter_core::{Entry, InFlight, InFlightPermit, ManualClock, Occupancy};
use proptest::prelude::*;

use super::{
    Limiter, Task,
    oracle::{Call, Oracle},
};

const KEYS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Enter {
        key: u8,
        limit: Option<u32>,
    },
    Acquire {
        key: u8,
        limit: Option<u32>,
        within: Option<u64>,
    },
    /// Gives one of the permits back.
    GiveBack(prop::sample::Index),
    Poll(prop::sample::Index),
    Leave(prop::sample::Index),
    SetLimit(u32),
    Reset(u8),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let limit = || prop::option::of(0..5_u32);
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..KEYS, limit()).prop_map(|(key, limit)| Step::Enter { key, limit }),
        6 => (0..KEYS, limit(), prop::option::of(0..4_u64))
            .prop_map(|(key, limit, within)| Step::Acquire { key, limit, within }),
        6 => index().prop_map(Step::GiveBack),
        6 => index().prop_map(Step::Poll),
        2 => index().prop_map(Step::Leave),
        1 => (1..5_u32).prop_map(Step::SetLimit),
        1 => (0..KEYS).prop_map(Step::Reset),
        1 => (1..3_u64).prop_map(Step::Advance),
    ]
}

/// A limiter and its oracle, with what their callers hold.
struct Run {
    clock: ManualClock,
    limiter: Limiter,
    oracle: Oracle,
    calls: Call,
    held: Vec<(Call, u8, InFlightPermit)>,
    waiting: Vec<(Call, u8, Task)>,
}

fn pick<T>(list: &mut Vec<T>, index: &prop::sample::Index) -> Option<T> {
    (!list.is_empty()).then(|| list.remove(index.index(list.len())))
}

fn answer(entry: &Entry) -> Result<Occupancy, Occupancy> {
    if entry.is_admitted() { Ok(entry.occupancy()) } else { Err(entry.occupancy()) }
}

impl Run {
    fn new(limit: u32, capacity: usize, max_waiting: usize) -> Self {
        let clock = ManualClock::new();
        let builder = InFlight::builder("test", limit).capacity(capacity).max_waiting(max_waiting);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        let oracle = Oracle::new(limit, capacity, max_waiting);
        Self { clock, limiter, oracle, calls: 0, held: Vec::new(), waiting: Vec::new() }
    }

    fn keep(&mut self, call: Call, key: u8, entry: Entry) {
        self.held.extend(entry.into_permit().map(|permit| (call, key, permit)));
    }

    fn enter(&mut self, key: u8, limit: Option<u32>) {
        self.calls += 1;
        let entry = match limit {
            Some(limit) => self.limiter.try_enter_under(key, limit),
            None => self.limiter.try_enter(key),
        };
        assert_eq!(answer(&entry), self.oracle.enter(self.calls, key, limit));
        self.keep(self.calls, key, entry);
    }

    fn acquire(&mut self, key: u8, limit: Option<u32>, within: Option<u64>) {
        self.calls += 1;
        let bound = within.map(Duration::from_secs);
        let mut task = Task::new(match limit {
            Some(limit) => self.limiter.acquire_under(key, limit, bound),
            None => self.limiter.acquire(key, bound),
        });
        let deadline = within.map(|within| self.oracle.now + within);
        let entry = task.poll();
        let expected = self.oracle.acquire(self.calls, key, limit, deadline);
        assert_eq!(entry.as_ref().map(answer), expected);
        match entry {
            Some(entry) => self.keep(self.calls, key, entry),
            None => self.waiting.push((self.calls, key, task)),
        }
    }

    fn poll(&mut self, (call, key, mut task): (Call, u8, Task)) {
        let entry = task.poll();
        assert_eq!(entry.as_ref().map(answer), self.oracle.poll(call, key));
        match entry {
            Some(entry) => self.keep(call, key, entry),
            None => self.waiting.push((call, key, task)),
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Enter { key, limit } => self.enter(*key, *limit),
            Step::Acquire { key, limit, within } => self.acquire(*key, *limit, *within),
            Step::GiveBack(index) => {
                if let Some((call, key, permit)) = pick(&mut self.held, index) {
                    drop(permit);
                    self.oracle.give_back(call, key);
                }
            }
            Step::Poll(index) => {
                if let Some(waiter) = pick(&mut self.waiting, index) {
                    self.poll(waiter);
                }
            }
            Step::Leave(index) => {
                if let Some((call, key, task)) = pick(&mut self.waiting, index) {
                    drop(task);
                    self.oracle.leave(call, key);
                }
            }
            Step::SetLimit(limit) => {
                self.limiter.set_limit(*limit).unwrap();
                self.oracle.set_limit(*limit);
            }
            Step::Reset(key) => {
                self.limiter.reset(*key);
                self.oracle.reset(*key);
            }
            Step::Advance(seconds) => {
                self.clock.advance(Duration::from_secs(*seconds));
                self.oracle.now += seconds;
            }
        }
    }

    fn compare(&self) {
        for key in 0..KEYS {
            assert_eq!(self.limiter.peek(key), self.oracle.peek(key, None));
        }
        let stats = self.limiter.stats();
        let expected = (self.oracle.total(), self.oracle.used(), self.oracle.waiting());
        assert_eq!((stats.held(), stats.keys(), stats.waiting()), expected);
        assert!(stats.keys() <= stats.capacity());
        for (call, key, task) in &self.waiting {
            let [is_granted, has_timer] = self.oracle.wakes(*key, *call);
            assert!(!is_granted || task.wakes() > 0, "call {call} of key {key} was not woken");
            assert!(is_granted || has_timer || task.wakes() == 0, "call {call} was woken in vain");
        }
    }

    /// Gives everything back, in the order in which it was taken.
    fn end(mut self) {
        while !self.held.is_empty() || !self.waiting.is_empty() {
            for (call, key, permit) in std::mem::take(&mut self.held) {
                drop(permit);
                self.oracle.give_back(call, key);
            }
            let waiting = std::mem::take(&mut self.waiting);
            waiting.into_iter().for_each(|waiter| self.poll(waiter));
        }
        let stats = self.limiter.stats();
        assert_eq!((stats.held(), stats.keys(), stats.waiting()), (0, 0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_schedule_agrees_with_the_oracle(
        limit in 1..4_u32,
        capacity in 1..=4_usize,
        max_waiting in 0..8_usize,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut run = Run::new(limit, capacity, max_waiting);
        for step in &steps {
            run.take(step);
            run.compare();
        }
        run.end();
    }
}
