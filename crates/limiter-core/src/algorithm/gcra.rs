//! GCRA, the generic cell rate algorithm, in one 64-bit word a key.

use core::time::Duration;

use super::{Algorithm, Charge, Mark, Meter, Resolution};
use crate::{Cost, Error, Quota, Timestamp, Usage};

/// The generic cell rate algorithm: a quota refilled continuously, with a burst.
///
/// A key's state is its *theoretical arrival time*, the moment at which its debt is drained. An
/// admission moves it forward by the quota's interval per permit; a cost is refused if that would
/// move it further ahead of now than a whole burst. Any trailing window `W` admits at most
/// `burst + permits * W / window`.
///
/// The algorithm is the virtual scheduling form of ITU-T I.371, annex A, written for a cost of n.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Cost, Quota, Timestamp, algorithm::{Algorithm, Gcra, Tat}};
///
/// let gcra = Gcra::new(&Quota::per_minute(10)?)?;
/// let mut state = Tat::default();
///
/// let all = gcra.decide(&mut state, Timestamp::ZERO, Cost::new(10)?);
/// assert_eq!((all.is_admitted(), all.remaining()), (true, 0));
///
/// let early = gcra.decide(&mut state, Timestamp::ZERO, Cost::ONE);
/// assert_eq!((early.is_admitted(), early.retry_after()), (false, Some(Duration::from_secs(6))));
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    meter: Meter,
    longest_delay: Duration,
}

/// A key's theoretical arrival time, in ticks since the clock's start. Fresh is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tat(u64);

/// The last moment that leaves room in the word for a debt, 27 years after the clock's start.
/// Time stands still there: from then on a key recovers no more, but never gets too much.
const HORIZON: u64 = (u64::MAX - Meter::MAX_CAPACITY_NANOS) / Meter::TICKS_PER_NANO;

impl Gcra {
    /// Returns the algorithm for `quota`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if the quota's rate can't be
    /// held within 0.1 %: see [`Meter::new`].
    pub fn new(quota: &Quota) -> Result<Self, Error> {
        Ok(Self { meter: Meter::new(quota, Resolution::Nanos)?, longest_delay: Duration::MAX })
    }

    /// Returns the algorithm with a longest delay, in permits.
    pub(super) const fn with_depth(self, depth: u64) -> Self {
        let longest_delay = self.meter.drain_time(depth.saturating_mul(self.meter.increment()));
        Self { longest_delay, ..self }
    }

    const fn debt(state: &Tat, now: Timestamp) -> u64 {
        state.0.saturating_sub(ticks(now))
    }
}

impl Algorithm for Gcra {
    type State = Tat;

    /// If it stayed, an impossible state would hold the key at its capacity until time has caught
    /// up with it, however far that is.
    #[inline]
    fn advance(&self, state: &mut Tat, now: Timestamp, promised: Timestamp) {
        state.0 = state.0.min(ticks(now.max(promised)) + self.meter.capacity());
    }

    #[inline]
    fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        self.meter.wait(Self::debt(state, now), cost)
    }

    #[inline]
    fn charge(&self, state: &mut Tat, at: Timestamp, cost: Cost) -> Mark {
        let debt = Self::debt(state, at).saturating_add(self.meter.price(cost).unwrap_or(0));
        // Where a wait was rounded up, the debt is below the capacity, never above.
        state.0 = ticks(at) + debt.min(self.meter.capacity());
        Mark::one(state.0)
    }

    /// What was promised for later stays.
    fn owe(&self, state: &mut Tat, at: Timestamp, cost: Cost) {
        let price = self.meter.price(cost).unwrap_or(self.meter.capacity());
        let debt = Self::debt(state, at);
        let most = debt.max(self.meter.capacity());
        state.0 = ticks(at) + debt.saturating_add(price).min(most);
    }

    /// The charge drains while time goes through the part of the line that it has filled, which
    /// ends at its mark: what is left of that part is given back, and what has filled the line
    /// behind it moves up. Where the charge itself has moved up, as when something before it was
    /// given back, its part ends no earlier than if it had been alone.
    fn refund(&self, state: &mut Tat, now: Timestamp, charge: &Charge, permits: u64) -> bool {
        let mark = charge.mark.word();
        let price = charge.cost.get().saturating_mul(self.meter.increment());
        let taken = permits.saturating_mul(self.meter.increment()).min(price);
        if state.0 == mark && !charge.moved {
            // The last of the line: nothing else moves.
            state.0 = state.0.saturating_sub(taken);
            return false;
        }
        if Self::debt(state, now) > self.meter.capacity() {
            // Permits that were promised for later keep their distance from each other.
            return false;
        }
        let end = if charge.moved { ticks(charge.at).saturating_add(price) } else { mark };
        let undrained = taken.min(end.min(state.0).saturating_sub(ticks(now)));
        state.0 = state.0.saturating_sub(undrained);
        undrained > 0
    }

    #[inline]
    fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        self.meter.usage(Self::debt(state, now))
    }

    #[inline]
    fn longest_delay(&self) -> Duration {
        self.longest_delay
    }

    fn adopt(&self, state: &mut Tat, from: &Self, now: Timestamp) {
        if self == from {
            return;
        }
        let debt = u128::from(Self::debt(state, now)) * u128::from(self.meter.increment());
        let debt = debt.div_ceil(u128::from(from.meter.increment()));
        // What was promised for later keeps its place in the line, as far as time reaches.
        let debt = u64::try_from(debt).unwrap_or(u64::MAX);
        state.0 = ticks(now).saturating_add(debt);
    }

    #[inline]
    fn is_fresh(&self, state: &Tat, now: Timestamp) -> bool {
        state.0 <= ticks(now)
    }
}

const fn ticks(now: Timestamp) -> u64 {
    let nanos = now.as_nanos();
    (if nanos < HORIZON { nanos } else { HORIZON }) * Meter::TICKS_PER_NANO
}
