//! What an adversary attacks: an algorithm or a limiter with one key.

use std::time::Duration;

use limiter_core::{
    Cost, ManualClock, MemoryLimiter, Policy, Receipt, Timestamp, UnkeyedLimiter,
    algorithm::{Algorithm, Charge},
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

    /// Gives permits back.
    fn give_back(&mut self, now: Timestamp, receipt: Self::Receipt);
}

/// An algorithm alone with a state.
#[derive(Debug)]
pub struct Alone<'a, A: Algorithm> {
    algorithm: &'a A,
    state: A::State,
    promised: Timestamp,
}

impl<'a, A: Algorithm> Alone<'a, A> {
    /// Returns `algorithm` with a fresh state.
    #[must_use]
    pub fn new(algorithm: &'a A) -> Self {
        Self { algorithm, state: A::State::default(), promised: Timestamp::ZERO }
    }

    fn advance(&mut self, now: Timestamp) {
        self.algorithm.advance(&mut self.state, now, now.max(self.promised));
    }
}

impl<A: Algorithm> Target for Alone<'_, A> {
    type Receipt = Charge;

    fn take(
        &mut self,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Result<(Timestamp, Charge), Option<Duration>> {
        self.advance(now);
        let (decision, charge) = self.algorithm.reserve(&mut self.state, now, cost, within);
        let charge = charge.ok_or(decision.retry_after())?;
        if charge.at > now {
            self.promised = self.promised.max(charge.at);
        }
        Ok((charge.at, charge))
    }

    fn remaining(&mut self, now: Timestamp) -> u64 {
        self.advance(now);
        self.algorithm.usage(&self.state, now).remaining()
    }

    fn give_back(&mut self, now: Timestamp, charge: Charge) {
        self.advance(now);
        self.algorithm.refund(&mut self.state, now, &charge, charge.cost.get());
    }
}

/// A limiter in memory on a [`ManualClock`] that starts at zero.
#[derive(Debug)]
pub struct InMemory<L> {
    limiter: L,
    clock: ManualClock,
}

const KEY: &str = "key";

impl InMemory<MemoryLimiter<ManualClock>> {
    /// Returns a limiter of `policy` with nothing in it.
    ///
    /// # Panics
    ///
    /// If the limiter can't hold the policy.
    #[must_use]
    pub fn keyed(policy: &Policy) -> Self {
        let clock = ManualClock::new();
        let limiter = MemoryLimiter::new(policy.clone()).expect("the policy fits");
        let limiter = limiter.with_capacity(1).expect("one key fits");
        Self { limiter: limiter.with_clock(clock.clone()), clock }
    }
}

impl InMemory<UnkeyedLimiter<ManualClock>> {
    /// Returns a limiter of `policy` without keys, which is quicker to make.
    ///
    /// # Panics
    ///
    /// If the limiter can't hold the policy.
    #[must_use]
    pub fn unkeyed(policy: &Policy) -> Self {
        let clock = ManualClock::new();
        let limiter = UnkeyedLimiter::new(policy.clone()).expect("the policy fits");
        Self { limiter: limiter.with_clock(clock.clone()), clock }
    }
}

macro_rules! target {
    ($limiter:ident $(, $key:ident)?) => {
        impl Target for InMemory<$limiter<ManualClock>> {
            type Receipt = Receipt;

            fn take(
                &mut self,
                now: Timestamp,
                cost: Cost,
                within: Duration,
            ) -> Result<(Timestamp, Receipt), Option<Duration>> {
                self.clock.set(now);
                let reservation = self.limiter.reserve($($key,)? cost, within);
                let delay = reservation.delay().unwrap_or_default();
                let retry_after = reservation.decision().retry_after();
                let receipt = reservation.into_receipt().ok_or(retry_after)?;
                Ok((now.saturating_add(delay), receipt))
            }

            fn remaining(&mut self, now: Timestamp) -> u64 {
                self.clock.set(now);
                self.limiter.peek($($key)?).remaining()
            }

            fn give_back(&mut self, now: Timestamp, receipt: Receipt) {
                self.clock.set(now);
                self.limiter.refund(receipt);
            }
        }
    };
}
target!(MemoryLimiter, KEY);
target!(UnkeyedLimiter);
