//! A limiter in memory on a clock that the test sets.

use std::time::Duration;

use limiter_core::{
    Cost, Decision, ManualClock, MemoryLimiter, Policy, Receipt, Reservation, Source, Store as _,
    Timestamp, Usage,
};

use super::{Operations, Subject};

/// A [`MemoryLimiter`] on a [`ManualClock`]. Each decision is compared with its preview.
#[derive(Debug)]
pub struct InMemory {
    limiter: MemoryLimiter<ManualClock>,
    clock: ManualClock,
}

impl InMemory {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_room_for(512, policy)
    }

    /// Returns a limiter of `policy` for so many keys.
    ///
    /// # Panics
    ///
    /// If `keys` is not a valid capacity.
    #[must_use]
    pub fn with_room_for(keys: usize, policy: Policy) -> Self {
        let clock = ManualClock::new();
        let builder = MemoryLimiter::builder(policy).capacity(keys).clock(clock.clone());
        // Enough entries, because those of a log would be merged.
        let builder = builder.entries_per_key(10_000);
        Self { limiter: builder.build().expect("the capacity is valid"), clock }
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
        let preview = self.limiter.preview(&key.into(), cost).expect("it calls no store");
        let decision = self.limiter.check_n(key, cost);
        // Several limits may be read beside the last free slot of a table, and then need one each.
        let may_differ = self.limiter.policy().limits().len() > 1;
        if !may_differ || decision.source() != Source::FullTable {
            compare(preview, decision, cost);
        }
        decision
    }
}

/// Compares the preview of a decision on `cost` with the decision.
fn compare(preview: Decision, decision: Decision, cost: Cost) {
    let figures = |it: Decision| (it.is_admitted(), it.retry_after());
    assert_eq!(figures(preview), figures(decision), "what a preview says");
    let (before, after) = (preview.remaining(), decision.remaining());
    if decision.is_admitted() {
        // The usage in a preview is the one before the charge.
        assert!(
            before >= after + cost.get(),
            "{before} left in a preview, and {after} after {cost}"
        );
    } else {
        assert_eq!(before, after, "what is left in a preview of {cost}");
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

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.clock.set(now);
        self.limiter.take_up_to(key, most)
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.clock.set(now);
        self.limiter.charge(key, cost)
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
