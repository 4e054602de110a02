//! What is known of a permit, by its caller and by what renews it, and how long permits last.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use limiter_core::{Error, Timestamp};
use tokio::sync::{Notify, futures::Notified};

use crate::builder::in_range;

/// A permit that this process holds.
#[derive(Debug)]
pub(crate) struct PermitState {
    /// Part of its id.
    pub(crate) number: u64,
    pub(crate) key: Bytes,
    pub(crate) limit: u32,
    /// When it is lost unless it is renewed, in nanoseconds of this process's clock.
    ends: AtomicU64,
    state: AtomicU8,
    /// Woken when the state changes.
    changed: Notify,
}

/// The store counts it, and its caller does not have it yet.
const TAKEN: u8 = 0;
const HELD: u8 = 1;
const LOST: u8 = 2;
const LEFT: u8 = 3;

impl PermitState {
    pub(crate) fn new(number: u64, key: Bytes, limit: u32, ends: Timestamp) -> Arc<Self> {
        let (ends, state) = (AtomicU64::new(ends.as_nanos()), AtomicU8::new(TAKEN));
        Arc::new(Self { number, key, limit, ends, state, changed: Notify::new() })
    }

    pub(crate) fn ends(&self) -> Timestamp {
        Timestamp::from_nanos(self.ends.load(SeqCst))
    }

    /// Lets the permit last until `ends`, unless it was lost.
    pub(crate) fn extend(&self, ends: Timestamp) {
        self.ends.fetch_max(ends.as_nanos(), SeqCst);
    }

    /// Returns whether it was lost. A permit that was lost once stays lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(SeqCst) == LOST
    }

    /// Returns whether its time is over. A process that was stopped sees it by the clock, before anything is renewed.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.ends()
    }

    /// Notes that its caller holds it from now on. Returns false if it was lost before.
    pub(crate) fn becomes_held(&self) -> bool {
        self.state.compare_exchange(TAKEN, HELD, SeqCst, SeqCst).is_ok()
    }

    /// Returns true to the first caller, unless the permit was given back, or nobody holds it yet: then nobody loses it. The
    /// caller calls [`PermitState::wake`] after that, without a lock.
    pub(crate) fn becomes_lost(&self) -> bool {
        let lost = |state| matches!(state, TAKEN | HELD).then_some(LOST);
        self.state.fetch_update(SeqCst, SeqCst, lost) == Ok(HELD)
    }

    /// Wakes those that wait for a change. A waker may use the limiter.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Notes that its caller holds it no more.
    pub(crate) fn becomes_left(&self) {
        if self.state.compare_exchange(HELD, LEFT, SeqCst, SeqCst).is_ok() {
            self.wake();
        }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.state.load(SeqCst) == LEFT
    }

    /// Returns a future that is ready once the permit was lost or given back.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

/// For how long a permit lasts in the store without renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry(pub(crate) Duration);

impl Expiry {
    pub(crate) const DEFAULT: Self = Self(Duration::from_secs(30));

    const RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

    /// The longest time of a call that renews or gives back permits, which nobody waits for.
    const LONGEST_CALL: Duration = Duration::from_secs(1);

    /// Returns an error that quotes a value if it is out of its range.
    pub(crate) fn check(self, deadline: Duration) -> Result<(), Error> {
        in_range(self.0, Self::RANGE, &format!("expiry of permits {:?}", self.0))?;
        let of_expiry = format!("deadline {deadline:?} of permits that expire after {:?}", self.0);
        in_range(deadline, Duration::ZERO..=self.period(), &of_expiry)
    }

    /// Returns when a permit is lost whose last request that succeeded was sent at `sent`: a fiftieth before the server
    /// may give its place to another one, because clocks run at different rates.
    pub(crate) fn ends(self, sent: Timestamp) -> Timestamp {
        sent.saturating_add(self.0 - self.0 / 50)
    }

    /// Returns the time between two renewals. A permit that was taken later is not renewed.
    pub(crate) fn period(self) -> Duration {
        self.0 / 3
    }

    /// Returns the longest time of a call that nobody waits for.
    pub(crate) fn call(self) -> Duration {
        self.period().min(Self::LONGEST_CALL)
    }

    /// Returns the time after a renewal that failed until the next one.
    pub(crate) fn pause(self) -> Duration {
        (self.0 / 30).min(Self::LONGEST_CALL)
    }

    /// Returns until when the server may count a permit whose last request was sent at `attempted`.
    pub(crate) fn forgotten(self, attempted: Timestamp) -> Timestamp {
        attempted.saturating_add(self.0 + Self::LONGEST_CALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_that_its_caller_never_got_is_lost_without_an_event() {
        let held = PermitState::new(1, Bytes::from("key"), 1, Timestamp::from_nanos(1));
        assert!(!held.becomes_lost());
        assert!(held.is_lost());
        assert!(!held.becomes_held());
    }

    #[test]
    fn a_permit_that_is_held_is_lost_once() {
        let held = PermitState::new(1, Bytes::from("key"), 1, Timestamp::from_nanos(1));
        assert!(held.becomes_held());
        assert!(held.becomes_lost());
        assert!(!held.becomes_lost());
    }
}
