//! A limiter in memory on a clock that the test sets.

use std::time::Duration;

use limiter_core::{
    Cost, Decision, ManualClock, MemoryLimiter, Policy, Receipt, Reservation, Timestamp, Usage,
};

use super::{Operations, Subject};

/// A [`MemoryLimiter`] on a [`ManualClock`].
#[derive(Debug)]
pub struct InMemory {
    limiter: MemoryLimiter<ManualClock>,
    clock: ManualClock,
}

impl InMemory {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let clock = ManualClock::new();
        let builder = MemoryLimiter::builder(policy).capacity(512).clock(clock.clone());
        Self { limiter: builder.build().expect("the capacity is valid"), clock }
    }

    /// Returns a limiter of `policy` whose states name their quotas in full.
    #[must_use]
    pub fn wide(policy: Policy) -> Self {
        let clock = ManualClock::new();
        let builder = MemoryLimiter::builder(policy).capacity(512).wide_states();
        let limiter = builder.clock(clock.clone()).build().expect("the capacity is valid");
        Self { limiter, clock }
    }
}

impl Subject for InMemory {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn switch(&mut self, policy: &Policy) {
        self.limiter = self.limiter.with_policy(policy).expect("there is room for the policy");
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.clock.set(now);
        self.limiter.check_n(key, cost)
    }
}

impl Operations for InMemory {
    fn policy(&self) -> Policy {
        self.limiter.policy().clone()
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.clock.set(now);
        self.limiter.peek(key)
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.clock.set(now);
        self.limiter.reserve(key, cost, within)
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        self.clock.set(now);
        self.limiter.refund(receipt)
    }

    fn reset(&mut self, now: Timestamp, key: &str) {
        self.clock.set(now);
        self.limiter.reset(key);
    }
}
