//! Permits that the store has granted in bulk, and that this process spends.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
    time::Duration,
};

use limiter_core::{Cost, Decision, Source, Timestamp, Usage};

use crate::call::reply::Charged;

/// The permits of one lease.
pub(crate) struct Grant {
    /// What is left, or [`CLOSED`].
    left: AtomicU64,
    /// How many permits were granted.
    pub(super) permits: u64,
    /// No permit is spent before, and none from `ends` on.
    pub(super) begins: Timestamp,
    ends: Timestamp,
    /// Whether it was noticed that little is left.
    is_low: AtomicBool,
    /// The state of the key when the lease was granted, and when that was known.
    usage: Usage,
    pub(super) received: Timestamp,
    /// What the store charged for it.
    pub(super) charged: Charged,
}

/// Why leases are given up. A later one outweighs those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The program ends. What is not spent goes back, also of a reply that is under way, but not of later ones.
    Drain,
    /// Another key has the place in the table, so that nobody would spend another lease. It goes back.
    Removal,
    /// The store has forgotten the key, so that nothing may go back.
    Reset,
}

/// Permits that go back to the store: what is left of a lease, which is counted, or what was charged for one moment and given
/// to nobody.
pub(super) struct Unspent {
    pub(super) charged: Charged,
    pub(super) permits: u64,
    pub(super) is_lease: bool,
}

/// No permit of the grant is spent or given back any more.
const CLOSED: u64 = u64::MAX;

impl Grant {
    /// Returns the grant of a request that was sent at `sent` and replied to by `received`, which `lasts` at the store from
    /// then on, or from its delay on.
    ///
    /// Clocks of servers and processes may run at slightly different rates, so it ends 1/1,024 of that time, and
    /// a microsecond, early. After a delay it begins as much later.
    pub(super) fn new(
        charged: Charged,
        usage: Usage,
        (sent, received): (Timestamp, Timestamp),
        lasts: Duration,
    ) -> Self {
        let inexact = |time: Duration| time / 1_024 + Duration::from_micros(1);
        let (delay, ends) = (charged.delay, charged.delay + lasts);
        let begins = received.saturating_add(delay + inexact(delay));
        Self {
            left: AtomicU64::new(charged.permits),
            permits: charged.permits,
            begins: if delay.is_zero() { sent } else { begins },
            ends: sent.saturating_add(ends.saturating_sub(inexact(ends))),
            is_low: AtomicBool::new(false),
            usage,
            received,
            charged,
        }
    }

    /// Spends permits, and returns how many are left, unless there are too few or the lease has ended.
    pub(super) fn take(&self, cost: Cost, now: Timestamp) -> Option<u64> {
        (now < self.ends).then(|| self.take_late(cost)).flatten()
    }

    /// Spends permits that were charged for this moment, even if the lease has ended.
    pub(super) fn take_late(&self, cost: Cost) -> Option<u64> {
        let rest = |left| if left == CLOSED { None } else { u64::checked_sub(left, cost.get()) };
        self.left.fetch_update(AcqRel, Acquire, rest).ok().map(|left| left - cost.get())
    }

    /// Gives permits back to a lease that has not ended, and returns how many.
    pub(crate) fn give(&self, permits: u64, now: Timestamp) -> u64 {
        let more = |left| if left == CLOSED { None } else { u64::checked_add(left, permits) };
        let is_over = now >= self.ends || self.left.fetch_update(AcqRel, Acquire, more).is_err();
        if is_over { 0 } else { permits }
    }

    /// Ends the lease, and returns how many of its permits were not spent. Returns `None` from the second time on.
    pub(super) fn close(&self) -> Option<u64> {
        let left = self.left.swap(CLOSED, AcqRel);
        (left != CLOSED).then_some(left)
    }

    pub(super) fn left(&self) -> u64 {
        let left = self.left.load(Acquire);
        if left == CLOSED { 0 } else { left }
    }

    pub(super) fn has_begun(&self, now: Timestamp) -> bool {
        now >= self.begins
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        now >= self.ends
    }

    /// Returns whether to ask for the next lease: once, when an eighth is left.
    pub(super) fn gets_low(&self, left: u64) -> bool {
        left <= self.permits / 8 && !self.is_low.swap(true, Relaxed)
    }

    /// Returns whether a cost is small enough to be spent from a lease of this size.
    pub(super) const fn is_for(&self, cost: Cost) -> bool {
        cost.get() == 1 || cost.get() <= self.permits / 8
    }

    /// Returns the decision for permits that were spent, after which so many are left here.
    pub(super) fn admitted(&self, left: u64, now: Timestamp) -> Decision {
        let Self { usage, received, .. } = self;
        let age = now.saturating_since(*received);
        let remaining = usage.remaining().saturating_add(left).min(usage.burst());
        let reset_after = usage.reset_after().saturating_sub(age);
        let usage = Usage::new(usage.burst(), remaining, reset_after);
        Decision::admitted(usage).with_source(Source::Lease)
    }
}
