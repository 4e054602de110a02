//! What an adversary attacks: an algorithm or a limiter with one key.

use std::time::Duration;

use limiter_core::{
    Cost, ManualClock, MemoryLimiter, Policy, Receipt, Timestamp,
    algorithms::{Charge, Transition},
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

/// A transition alone with a state.
#[derive(Debug)]
pub struct Alone<'a, A: Transition> {
    algorithm: &'a A,
    state: A::State,
}

impl<'a, A: Transition> Alone<'a, A> {
    /// Returns `algorithm` with a fresh state.
    #[must_use]
    pub fn new(algorithm: &'a A) -> Self {
        Self { algorithm, state: A::State::default() }
    }
}

impl<A: Transition> Target for Alone<'_, A> {
    type Receipt = Charge;

    fn take(
        &mut self,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Result<(Timestamp, Charge), Option<Duration>> {
        let mut state = self.state.clone();
        let was_impossible = self.algorithm.advance(&mut state, now);
        let (decision, charge) = self.algorithm.decide(&mut state, now, cost, within);
        // As in every store, a refusal writes a state only if it replaces an impossible one.
        if charge.is_some() || was_impossible {
            self.state = state;
        }
        let charge = charge.ok_or(decision.retry_after())?;
        Ok((charge.at, charge))
    }

    fn remaining(&mut self, now: Timestamp) -> u64 {
        let mut state = self.state.clone();
        self.algorithm.advance(&mut state, now);
        self.algorithm.usage(&state, now).remaining()
    }

    fn give_back(&mut self, now: Timestamp, charge: Charge) -> u64 {
        self.algorithm.advance(&mut self.state, now);
        self.algorithm.refund(&mut self.state, now, &charge, charge.cost.get())
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
