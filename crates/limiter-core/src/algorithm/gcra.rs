//! GCRA, the generic cell rate algorithm.

use core::time::Duration;

use super::{Charge, Marks, Scale, Transition, nanos, whole};
use crate::{Cost, Decision, Quota, Timestamp, Usage};

/// The generic cell rate algorithm: a quota refilled continuously, with a burst.
///
/// A key's state is its *theoretical arrival time*: the moment at which its debt is drained. A
/// charge moves it ahead by the quota's interval for each permit; a cost is refused if that would
/// move it farther ahead of now than a whole burst takes to recover. Any trailing window `W` admits
/// at most `burst + permits * W / window`.
///
/// The algorithm is the virtual scheduling form of ITU-T I.371, annex A, written for a cost of n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    pub(crate) scale: Scale,
    burst: u64,
    /// The debt of a whole burst, in ticks.
    capacity: u64,
    horizon: Duration,
}

/// A key's theoretical arrival time, in ticks of the quota that wrote it. Fresh is all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tat {
    pub(crate) at: u64,
    pub(crate) scale: Scale,
}

impl Gcra {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration) -> Self {
        let scale = Scale::new(quota, horizon);
        let (burst, capacity) = (quota.burst(), quota.burst() * scale.increment);
        Self { scale, burst, capacity, horizon }
    }

    /// Returns the debt at `now` in ticks of this quota, rounded up.
    fn debt(&self, state: &Tat, now: u64) -> u64 {
        let debt = state.at.saturating_sub(state.scale.ticks(now));
        if state.scale == self.scale || debt == 0 {
            return debt;
        }
        let own = u128::from(debt) * u128::from(self.scale.increment);
        // Rounded up by one division, of which it takes most of its time.
        whole((own - 1) / u128::from(state.scale.increment.max(1)) + 1)
    }

    /// Returns the largest debt at which `cost` fits, `None` if it never fits.
    #[inline]
    const fn room(&self, cost: Cost) -> Option<u64> {
        if cost.get() > self.burst {
            return None;
        }
        Some(self.capacity - cost.get() * self.scale.increment)
    }

    /// Checks `cost` under an own debt that ends at `at`. Returns when the debt ends afterwards and
    /// whether the cost fits, or `None` if the debt is impossible.
    #[inline(always)]
    pub(crate) fn check(&self, at: u64, now: Timestamp, cost: Cost) -> Option<(u64, bool)> {
        let ticks = self.scale.ticks(nanos(now));
        let (at, debt) = (at.max(ticks), at.saturating_sub(ticks));
        if debt > self.scale.reach {
            return None;
        }
        Some(match self.room(cost) {
            Some(room) if debt <= room => (at + cost.get() * self.scale.increment, true),
            _ => (at, false),
        })
    }

    /// Returns the decision on `cost` at `now` that left an own debt that ends at `at`.
    #[inline(always)]
    pub(crate) fn decision(
        &self,
        (at, admitted): (u64, bool),
        now: Timestamp,
        cost: Cost,
    ) -> Decision {
        let usage = Usage::of_debt(self.burst, at, nanos(now), self.scale);
        if admitted {
            return Decision::admitted(usage);
        }
        let until = |room| self.scale.until(at.saturating_sub(room), nanos(now));
        Decision::refused(usage, self.room(cost).map(until))
    }
}

impl Transition for Gcra {
    type State = Tat;

    fn is_possible(&self, state: &Tat, now: Timestamp) -> bool {
        state.at.saturating_sub(state.scale.ticks(nanos(now))) <= state.scale.reach
    }

    fn advance(&self, state: &mut Tat, now: Timestamp) {
        if self.is_possible(state, now) {
            return;
        }
        state.at = if state.scale == self.scale {
            // From the end of the present tick, so that no step back gains one.
            self.scale.ticks_rounded_up(nanos(now)) + self.capacity
        } else {
            // The largest debt that the other quota can have left, so that none of a smaller burst
            // gives the key a new allowance.
            state.scale.ticks(nanos(now)) + state.scale.reach
        };
    }

    fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        let (writer, mut room) = (&state.scale, self.room(cost)?);
        if *writer != self.scale {
            let permits = room / self.scale.increment;
            room = permits.saturating_mul(writer.increment);
        }
        Some(writer.until(state.at.saturating_sub(room), nanos(now)))
    }

    /// Another quota's debt is dated from the end of the present tick: from its beginning, two quotas
    /// in turn would gain a tick with each charge.
    fn charge(&self, state: &mut Tat, at: Timestamp, cost: Cost) -> Marks {
        let at = nanos(at);
        let debt_ends = match self.debt(state, at) {
            debt if state.scale == self.scale || debt == 0 => self.scale.ticks(at) + debt,
            debt => self.scale.ticks_rounded_up(at).saturating_add(debt),
        };
        // What fits is at most the capacity, and what does not fit is not charged.
        let price = cost.get().saturating_mul(self.scale.increment);
        *state = Tat { at: debt_ends.saturating_add(price), scale: self.scale };
        Marks::one(state.at)
    }

    /// A permit that has partly recovered counts as one.
    ///
    /// A charge drains from the moment it was made for. The mark does not show how much of it is
    /// left, because earlier debts may have been refunded since. Reservations behind the charge keep their
    /// moments, so a refund gives back only the part of the charge that they don't overlap.
    fn refund(&self, state: &mut Tat, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let (now, scale) = (self.scale.ticks(nanos(now)), &self.scale);
        let debt = state.at.saturating_sub(now);
        if state.scale != *scale || debt == 0 {
            return 0;
        }
        let price = permits.min(charge.cost.get()).saturating_mul(scale.increment);
        let drained = now.saturating_sub(scale.ticks(nanos(charge.at)));
        let left = charge.cost.get().saturating_mul(scale.increment).saturating_sub(drained);
        let mut back = price.min(left).min(debt);
        if debt > self.capacity {
            let behind = state.at.saturating_sub(charge.marks.first());
            back = back.min(price.saturating_sub(behind));
        }
        state.at -= back;
        back.div_ceil(scale.increment)
    }

    fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        let now = nanos(now);
        if state.scale == self.scale {
            return Usage::of_debt(self.burst, state.at, now, self.scale);
        }
        let room = self.capacity.saturating_sub(self.debt(state, now));
        let reset_after = state.scale.until(state.at, now);
        Usage::new(self.burst, room / self.scale.increment, reset_after)
    }

    /// A debt that another quota wrote drains at that quota's pace until it is charged anew, so nothing
    /// is promised behind it.
    fn longest_delay(&self, state: &Tat, _now: Timestamp) -> Duration {
        if state.scale == self.scale || *state == Tat::default() {
            self.horizon
        } else {
            Duration::ZERO
        }
    }
}
