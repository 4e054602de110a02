//! A limiter under test, on a clock that the test holds.

use std::{collections::HashMap, time::Duration};

use limiter_core::{
    Cost, Decision, ManualClock, MemoryLimiter, Policy, Receipt, Reservation, Timestamp, Usage,
    algorithm::Algorithm,
};

/// A limiter whose clock the test sets.
pub trait Subject {
    /// The smallest step of the limiter's clock, and the unit of its waits.
    fn tick(&self) -> Duration;

    /// Sets the clock to `now`, a whole number of ticks, and asks for `cost` permits of `key`.
    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision;
}

/// A limiter with all operations, whose clock the test sets.
pub trait Operations: Subject {
    /// Sets the clock to `now`, and asks how far the permits of `key` are used up.
    fn peek(&mut self, now: Timestamp, key: &str) -> Usage;

    /// Sets the clock to `now`, and takes permits of `key` that are there `within` some time.
    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation;

    /// Sets the clock to `now`, and gives permits back.
    fn refund(&mut self, now: Timestamp, receipt: Receipt);

    /// Sets the clock to `now`, and makes `key` a fresh one.
    fn reset(&mut self, now: Timestamp, key: &str);

    /// Sets the clock to `now`, and replaces the policy.
    fn replace(&mut self, now: Timestamp, policy: Policy);

    /// Sets the clock to `now`, and asks for permits of `key` by a tier of the policy.
    fn decide_by(&mut self, now: Timestamp, tier: &str, key: &str, cost: Cost) -> Decision;
}

/// A [`MemoryLimiter`] on a [`ManualClock`].
#[derive(Debug)]
pub struct InMemory {
    limiter: MemoryLimiter<ManualClock>,
    clock: ManualClock,
}

impl InMemory {
    /// Returns a limiter of `policy` with nothing in it.
    ///
    /// # Panics
    ///
    /// If the limiter can't hold the policy.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let clock = ManualClock::new();
        let limiter = MemoryLimiter::new(policy).expect("the policy can be held");
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

impl Operations for InMemory {
    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.clock.set(now);
        self.limiter.peek(key)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.clock.set(now);
        self.limiter.reserve(key, cost, within)
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) {
        self.clock.set(now);
        self.limiter.refund(receipt);
    }

    fn reset(&mut self, now: Timestamp, key: &str) {
        self.clock.set(now);
        self.limiter.reset(key);
    }

    fn replace(&mut self, now: Timestamp, policy: Policy) {
        self.clock.set(now);
        self.limiter.replace(policy).expect("the policy can take over");
    }

    fn decide_by(&mut self, now: Timestamp, tier: &str, key: &str, cost: Cost) -> Decision {
        self.clock.set(now);
        let tier = self.limiter.tier(tier).expect("there is such a tier");
        tier.try_acquire(key, cost)
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
