//! A limiter in memory on a clock that the test sets.

use std::{sync::Arc, time::Duration};

use limiter_core::{
    Cost, LimiterFuture, ManualClock, MemoryLimiter, Policy, Store as _, Timestamp,
};

use super::{InStore, Process};

/// The clock of limiters in memory.
#[derive(Clone, Debug, Default)]
pub struct Local(pub ManualClock);

impl Process for Local {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn lists_are_one_step(&self) -> bool {
        true
    }

    fn set_clock(&self, now: Timestamp) {
        self.0.set(now);
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T {
        future.wait().expect("a limiter in memory returns no error")
    }
}

impl Local {
    /// Returns a limiter of `policy` for so many keys.
    ///
    /// # Panics
    ///
    /// If `keys` is not a valid capacity.
    #[must_use]
    pub fn limiter(&self, keys: usize, policy: &Policy) -> MemoryLimiter<ManualClock> {
        let builder = MemoryLimiter::builder(policy.clone()).capacity(keys).clock(self.0.clone());
        // Enough entries, because those of a log would be merged.
        builder.entries_per_key(10_000).build().expect("the capacity is valid")
    }
}

/// A limiter in memory.
pub type InMemory = InStore<Local, MemoryLimiter<ManualClock>>;

impl InMemory {
    /// Returns a limiter of `policy` with no states.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_room_for(512, policy)
    }

    /// Returns a limiter of `policy` for so many keys.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "all that make subjects are called alike")]
    pub fn with_room_for(keys: usize, policy: Policy) -> Self {
        let local = Local::default();
        let limiter = local.limiter(keys, &policy);
        assert!(limiter.preview(&"key".into(), Cost::ONE).is_some(), "it calls no store");
        Self::since(Duration::ZERO, Arc::new(local), limiter)
    }
}
