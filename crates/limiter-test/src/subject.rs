//! A limiter under test, on a clock that the test holds.

use std::{collections::HashMap, time::Duration};

use limiter_core::{
    Cost, Decision, ManualClock, MemoryLimiter, Policy, Quota, Timestamp, algorithm::Algorithm,
};

/// A limiter whose clock the test sets.
pub trait Subject {
    /// The smallest step of the limiter's clock, and the unit of its waits.
    fn tick(&self) -> Duration;

    /// Sets the clock to `now`, a whole number of ticks, and asks for `cost` permits of `key`.
    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision;
}

/// A [`MemoryLimiter`] on a [`ManualClock`].
#[derive(Debug)]
pub struct InMemory {
    limiter: MemoryLimiter<ManualClock>,
    clock: ManualClock,
}

impl InMemory {
    /// Returns a limiter of `quota` with nothing in it.
    ///
    /// # Panics
    ///
    /// If the limiter can't hold the quota.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        let clock = ManualClock::new();
        let policy = Policy::gcra("test", quota).expect("the name is valid");
        let limiter = MemoryLimiter::new(policy).expect("the quota fits");
        let limiter = limiter.with_capacity(512).expect("the capacity fits");
        Self { limiter: limiter.with_clock(clock.clone()), clock }
    }
}

impl Subject for InMemory {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.clock.set(now);
        self.limiter.try_acquire(key, cost)
    }
}

/// An algorithm alone, with the plainest store there is: one that forgets nothing.
#[derive(Debug)]
pub struct Bare<A: Algorithm> {
    algorithm: A,
    tick: Duration,
    states: HashMap<String, A::State>,
}

impl<A: Algorithm> Bare<A> {
    /// Returns `algorithm` with no state, on a clock of `tick`.
    #[must_use]
    pub fn new(algorithm: A, tick: Duration) -> Self {
        Self { algorithm, tick, states: HashMap::new() }
    }
}

impl<A: Algorithm> Subject for Bare<A> {
    fn tick(&self) -> Duration {
        self.tick
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        let state = self.states.entry(key.to_owned()).or_default();
        self.algorithm.advance(state, now, now);
        self.algorithm.decide(state, now, cost)
    }
}
