//! What an adversary attacks: an algorithm or a limiter with one key.

use std::{slice, time::Duration};

use limiter_core::{
    Cost, ManualClock, MemoryLimiter, Policy, Receipt, Timestamp,
    algorithms::{AnyTransition, Charges, KeyStates, State, Transition, operate},
};

/// A limiter of one key whose clock the caller holds.
pub trait Target {
    /// What gives permits back.
    type Receipt;

    /// Takes `cost` permits at `now` or `within` some time. Returns for when it got them, or how
    /// long it has to wait if it can ever get them.
    ///
    /// # Errors
    ///
    /// The wait of a refusal.
    fn take(
        &mut self,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Result<(Timestamp, Self::Receipt), Option<Duration>>;

    /// Returns how many permits are said to be left at `now`.
    fn remaining(&mut self, now: Timestamp) -> u64;

    /// Gives permits back, and returns how many were returned.
    fn give_back(&mut self, now: Timestamp, receipt: Self::Receipt) -> u64;
}

/// An algorithm alone with a state.
#[derive(Debug)]
pub struct Alone<'a> {
    limit: &'a AnyTransition,
    state: State,
}

impl<'a> Alone<'a> {
    /// Returns the algorithm of a limit with a fresh state.
    #[must_use]
    pub fn new(limit: &'a AnyTransition) -> Self {
        Self { limit, state: State::default() }
    }

    /// Runs an operation on the state.
    fn operate<R>(
        &mut self,
        now: Timestamp,
        operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
    ) -> R {
        operate(slice::from_ref(self.limit), slice::from_mut(&mut self.state), now, operation)
    }
}

impl Target for Alone<'_> {
    type Receipt = Charges;

    fn take(
        &mut self,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Result<(Timestamp, Charges), Option<Duration>> {
        let before = self.state.clone();
        let was_possible = self.limit.is_possible(&before, now);
        let (decision, charges) =
            self.operate(now, |states| (states.take(cost, within), states.charges()));
        // As in every store, a refusal writes a state only if it replaces an impossible one.
        if charges.is_none() && was_possible {
            self.state = before;
        }
        let charges = charges.ok_or(decision.retry_after())?;
        Ok((charges.at(), charges))
    }

    fn remaining(&mut self, now: Timestamp) -> u64 {
        let mut copy = Self { limit: self.limit, state: self.state.clone() };
        copy.operate(now, |states| states.usage()).remaining()
    }

    fn give_back(&mut self, now: Timestamp, charges: Charges) -> u64 {
        let permits = charges.permits();
        self.operate(now, |states| states.refund(&charges, permits))
    }
}

/// A limiter in memory on a [`ManualClock`] that starts at zero.
#[derive(Debug)]
pub struct InMemory {
    limiter: MemoryLimiter<ManualClock>,
    clock: ManualClock,
}

const KEY: &str = "key";

impl InMemory {
    /// Returns a limiter of `policy` with nothing in it.
    ///
    /// # Panics
    ///
    /// Never: a capacity of one key is valid.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let clock = ManualClock::new();
        let builder = MemoryLimiter::builder(policy.clone()).capacity(1).clock(clock.clone());
        Self { limiter: builder.build().expect("one key fits"), clock }
    }
}

impl Target for InMemory {
    type Receipt = Receipt;

    fn take(
        &mut self,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Result<(Timestamp, Receipt), Option<Duration>> {
        self.clock.set(now);
        let reservation = self.limiter.reserve(KEY, cost, within);
        let delay = reservation.delay().unwrap_or_default();
        let retry_after = reservation.decision().retry_after();
        let receipt = reservation.into_receipt().ok_or(retry_after)?;
        Ok((now.saturating_add(delay), receipt))
    }

    fn remaining(&mut self, now: Timestamp) -> u64 {
        self.clock.set(now);
        self.limiter.peek(KEY).remaining()
    }

    fn give_back(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        self.clock.set(now);
        self.limiter.refund(receipt)
    }
}
