//! GCRA, the generic cell rate algorithm.

use core::time::Duration;

use super::transition::{Refunded, Transition};
use crate::{
    Cost, Decision, Quota, Timestamp, Usage,
    charge::{Charge, Marks},
    ticks::{left, of_permit, of_time, ticks, time, whole},
};

/// The generic cell rate algorithm: a quota refilled continuously, with a burst.
///
/// A key's state is its *theoretical arrival time*: the moment at which its debt is drained. A
/// charge moves it ahead by the quota's increment for each permit; a cost is refused if that would
/// move it farther ahead of now than a whole burst takes to recover. Any trailing window `W` admits
/// at most `burst + permits * W / window`.
///
/// The algorithm is the virtual scheduling form of ITU-T I.371, annex A, written for a cost of n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    /// What a charge writes into the state.
    pub(crate) writer: Writer,
    burst: u64,
    horizon: Duration,
}

/// The numbers of the quota that wrote a debt, without which the debt means nothing. In ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer {
    /// What one permit adds to a debt: the time between two permits, rounded up to a tick. So a rate
    /// is lower than the quota's by at most 0.1 % up to 4,000,000/s, 0.125 % at 5,000,000/s, and
    /// less than one in a million up to 4,000/s.
    pub(crate) increment: u64,
    /// The debt of a whole burst.
    capacity: u64,
    /// The largest debt that the quota can leave: a whole burst, and more for later.
    reach: u64,
}

/// A key's theoretical arrival time, in ticks, and the quota that wrote it. Fresh is all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tat {
    pub(crate) at: u64,
    pub(crate) writer: Writer,
}

impl Tat {
    /// Returns the debt that is left at `now`, in ticks.
    pub(crate) const fn debt(&self, now: u64) -> u64 {
        if self.writer.increment == 0 { 0 } else { left(self.at, now) }
    }
}

impl Gcra {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`, up to 36
    /// years less the recovery of a burst.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration) -> Self {
        // Half of how far apart two moments in ticks can be compared, so that the clock may also step back.
        const LONGEST_REACH: Duration = Duration::from_secs(36 * 365 * 86_400);
        let increment = of_permit(quota);
        let capacity = quota.burst() * increment;
        let horizon = horizon.min(LONGEST_REACH.saturating_sub(time(capacity)));
        let writer = Writer { increment, capacity, reach: capacity + of_time(horizon) };
        Self { writer, burst: quota.burst(), horizon }
    }

    /// Returns the debt at `now` in ticks of this quota, rounded up.
    fn debt(&self, state: &Tat, now: u64) -> u64 {
        let debt = state.debt(now);
        if debt == 0 || state.writer.increment == self.writer.increment {
            return debt;
        }
        let own = u128::from(debt) * u128::from(self.writer.increment);
        // Rounded up by one division, which takes most of the time.
        whole((own - 1) / u128::from(state.writer.increment) + 1)
    }

    /// Returns the largest debt at which `cost` fits, `None` if it never fits.
    #[inline]
    const fn room(&self, cost: Cost) -> Option<u64> {
        if cost.get() > self.burst {
            return None;
        }
        Some(self.writer.capacity - cost.get() * self.writer.increment)
    }

    /// Returns by how much a refund lowers a debt.
    ///
    /// A charge drains from the moment it was made for. The mark does not show how much of it is
    /// left, because earlier debts may have been refunded since. Reservations behind the charge keep their
    /// moments, so a refund gives back only the part of the charge that they don't overlap: of a charge in any
    /// case of more than a burst, only a burst, because they rely on what was above it.
    fn ticks_back(&self, state: &Tat, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let Writer { increment, .. } = self.writer;
        let (now, charged_for) = (ticks(now), ticks(charge.at));
        let debt = state.debt(now);
        if state.writer != self.writer {
            return 0;
        }
        let whole = charge.cost.get().saturating_mul(increment);
        let price = permits.saturating_mul(increment).min(whole);
        let remains = whole.saturating_sub(left(now, charged_for));
        let back = price.min(remains).min(debt);
        if debt <= self.writer.capacity {
            return back;
        }
        let behind = left(state.at, charge.marks.first());
        back.min(price.min(self.writer.capacity).saturating_sub(behind))
    }

    /// Decides on `cost` under an own debt that ends at the tick `tat`. Returns the decision and when the debt
    /// ends afterwards, or `None` if the debt is impossible.
    #[inline(always)]
    pub(crate) fn check(&self, tat: u64, now: u64, cost: Cost) -> Option<(Decision, u64)> {
        let (debt, Writer { increment, .. }) = (left(tat, now), self.writer);
        if debt > self.writer.reach {
            return None;
        }
        Some(match self.room(cost) {
            Some(room) if debt <= room => {
                let debt = debt + cost.get() * increment;
                let usage = Usage::of_debt(self.burst, debt, increment);
                (Decision::admitted(usage), now.wrapping_add(debt))
            }
            room => {
                let usage = Usage::of_debt(self.burst, debt, increment);
                (Decision::refused(usage, room.map(|room| time(debt - room))), tat)
            }
        })
    }

    /// Returns the decision on `cost` under an own debt that ends at the tick `tat`, with the usage before it, or
    /// `None` if the debt is impossible.
    pub(crate) fn preview(&self, tat: u64, now: u64, cost: Cost) -> Option<Decision> {
        let (debt, Writer { increment, reach, .. }) = (left(tat, now), self.writer);
        let usage = Usage::of_debt(self.burst, debt, increment);
        (debt <= reach).then(|| match self.room(cost) {
            Some(room) if debt <= room => Decision::admitted(usage),
            room => Decision::refused(usage, room.map(|room| time(debt - room))),
        })
    }
}

impl Transition for Gcra {
    type State = Tat;

    fn is_possible(&self, state: &Tat, now: Timestamp) -> bool {
        state.debt(ticks(now)) <= state.writer.reach
    }

    fn advance(&self, state: &mut Tat, now: Timestamp) -> bool {
        if self.is_possible(state, now) {
            return false;
        }
        // Of another quota, the largest debt that it can have left, so that none of a smaller burst
        // gives the key a new allowance.
        let is_own = state.writer == self.writer;
        let debt = if is_own { self.writer.capacity } else { state.writer.reach };
        state.at = ticks(now).wrapping_add(debt);
        true
    }

    fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        let mut room = self.room(cost)?;
        if state.writer.increment != self.writer.increment {
            // What is left of a burst, at the pace at which the debt drains.
            room = (self.burst - cost.get()).saturating_mul(state.writer.increment);
        }
        Some(time(state.debt(ticks(now)).saturating_sub(room)))
    }

    fn charge(&self, state: &mut Tat, _now: Timestamp, at: Timestamp, cost: Cost) -> Marks {
        let at = ticks(at);
        // What is charged is at most the reach.
        let price = cost.get().saturating_mul(self.writer.increment);
        let debt = self.debt(state, at).saturating_add(price);
        *state = Tat { at: at.wrapping_add(debt), writer: self.writer };
        Marks::one(state.at)
    }

    fn most_chargeable(&self, state: &Tat, now: Timestamp) -> u64 {
        let debt = self.debt(state, ticks(now));
        self.writer.reach.saturating_sub(debt) / self.writer.increment
    }

    /// A permit that has partly recovered counts as one.
    fn refundable(&self, state: &Tat, now: Timestamp, charge: &Charge, permits: u64) -> Refunded {
        let back = self.ticks_back(state, now, charge, permits);
        let is_whole = back > 0 && back == charge.cost.get().saturating_mul(self.writer.increment);
        Refunded { permits: back.div_ceil(self.writer.increment), is_whole }
    }

    fn give_back(&self, state: &mut Tat, now: Timestamp, charge: &Charge, permits: u64) {
        state.at = state.at.wrapping_sub(self.ticks_back(state, now, charge, permits));
    }

    fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        let now = ticks(now);
        if state.writer.increment == self.writer.increment {
            return Usage::of_debt(self.burst, state.debt(now), self.writer.increment);
        }
        let room = self.writer.capacity.saturating_sub(self.debt(state, now));
        Usage::new(self.burst, room / self.writer.increment, time(state.debt(now)))
    }

    /// A debt that another quota wrote drains at that quota's pace until it is charged anew, so nothing
    /// is promised behind it.
    fn longest_delay(&self, state: &Tat, now: Timestamp) -> Duration {
        if state.writer == self.writer || state.debt(ticks(now)) == 0 {
            self.horizon
        } else {
            Duration::ZERO
        }
    }

    fn fresh_after(&self, state: &Tat, now: Timestamp) -> Duration {
        time(state.debt(ticks(now)))
    }
}
