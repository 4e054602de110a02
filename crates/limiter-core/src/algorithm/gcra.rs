//! GCRA, the generic cell rate algorithm, in one 64-bit word a key.

use super::{Algorithm, Meter, Resolution};
use crate::{Cost, Decision, Error, Quota, Timestamp};

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
        Ok(Self { meter: Meter::new(quota, Resolution::Nanos)? })
    }
}

impl Algorithm for Gcra {
    type State = Tat;

    #[inline]
    fn decide(&self, state: &mut Tat, now: Timestamp, cost: Cost) -> Decision {
        // Advance.
        self.clamp(state, now);
        let now = ticks(now);
        let debt = state.0.saturating_sub(now);
        // Decide.
        let Some(debt) = self.meter.charge(debt, cost) else {
            return self.meter.refused(debt, cost);
        };
        // Commit.
        state.0 = now + debt;
        self.meter.admitted(debt)
    }

    /// If it stayed, such a state would hold the key at its capacity until time has caught up with
    /// it, however far that is.
    #[inline]
    fn clamp(&self, state: &mut Tat, now: Timestamp) {
        state.0 = state.0.min(ticks(now) + self.meter.capacity());
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
