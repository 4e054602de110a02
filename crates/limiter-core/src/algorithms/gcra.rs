//! GCRA, the generic cell rate algorithm.

use core::time::Duration;

use super::refunded::Refunded;
use crate::{
    Cost, Decision, Quota, Timestamp, Usage,
    charge::Charge,
    ticks::{left, of_burst, of_permit, of_time, ticks, time},
};

/// The generic cell rate algorithm: a quota refilled continuously, with a burst.
///
/// A key's state is its *theoretical arrival time*: the moment at which its debt is drained. A
/// charge moves it ahead by the quota's increment for each permit; a cost is refused if that would
/// move it farther ahead of now than a whole burst takes to recover. Any trailing window `W` admits
/// at most `burst + permits * W / window`.
///
/// Quotas of one span share a state: in ticks, they are one quota whose increment is a tick. So a charge uses the same
/// fraction of each quota's burst.
///
/// The algorithm is the virtual scheduling form of ITU-T I.371, annex A, written for a cost of n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    /// What one permit adds to a debt: the time between two permits, rounded up to a tick. So a rate
    /// is lower than the quota's by at most 0.1 % up to 4,000,000/s, 0.125 % at 5,000,000/s, and
    /// less than one in a million up to 4,000/s.
    increment: u64,
    burst: u64,
    /// The time in which a burst recovers, rounded up once: the same for all quotas that share a state.
    span: u64,
    /// No quota of this span and horizon leaves a larger debt.
    reach: u64,
    /// How far ahead permits may be promised.
    horizon: Duration,
}

/// A key's theoretical arrival time, in ticks. Fresh has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tat(pub(crate) Option<u64>);

impl Tat {
    /// Returns the debt that is left at `now`, in ticks.
    #[inline]
    pub(crate) fn debt(self, now: u64) -> u64 {
        self.0.map_or(0, |tat| left(tat, now))
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
        let (burst, span) = (quota.burst(), of_burst(quota));
        let horizon = horizon.min(LONGEST_REACH.saturating_sub(time(burst * increment)));
        // Increments round a capacity and a horizon up by a part of 512 or less, and some hundred ticks.
        let exact = span + of_time(horizon);
        let reach = exact + exact / 512 + 4_096;
        Self { increment, burst, span, reach, horizon }
    }

    /// Returns the largest debt that a quota of this span can leave, in ticks.
    pub(crate) const fn longest_debt(&self) -> u64 {
        self.reach
    }

    /// Returns the debt of a whole burst: the span, or some ticks more, because the increment is rounded up.
    const fn capacity(&self) -> u64 {
        self.burst * self.increment
    }

    /// Returns the largest debt at which `cost` fits, `None` if it never fits.
    #[inline]
    const fn room(&self, cost: Cost) -> Option<u64> {
        match self.burst.checked_sub(cost.get()) {
            Some(rest) => Some(rest * self.increment),
            None => None,
        }
    }

    /// Returns by how much a refund lowers a debt.
    ///
    /// A charge drains from the moment it was made for. The mark does not show how much of it is
    /// left, because earlier debts may have been refunded since. Reservations behind the charge keep their
    /// moments, so a refund gives back only the part of the charge that they don't overlap: at most a span, because
    /// they rely on what was above it, by whichever quota they were made. With nothing behind it, a whole burst comes back.
    fn ticks_back(&self, state: Tat, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let (now, charged_for) = (ticks(now), ticks(charge.at));
        let debt = state.debt(now);
        let whole = charge.cost.get().saturating_mul(self.increment);
        let price = permits.saturating_mul(self.increment).min(whole);
        let remains = whole.saturating_sub(left(now, charged_for));
        let back = price.min(remains).min(debt);
        match state.0 {
            Some(tat) if debt > self.span => {
                let behind = left(tat, charge.mark);
                let most = if behind == 0 { self.capacity() } else { self.span };
                back.min(price.min(most).saturating_sub(behind))
            }
            _ => back,
        }
    }

    /// Decides on `cost` under a debt that ends at the tick `tat`. Returns the decision and when the debt ends
    /// afterwards, or `None` if the debt is impossible.
    #[inline(always)]
    pub(crate) fn check(&self, tat: u64, now: u64, cost: Cost) -> Option<(Decision, u64)> {
        let debt = left(tat, now);
        if debt > self.reach {
            return None;
        }
        Some(match self.room(cost) {
            Some(room) if debt <= room => {
                let debt = debt + cost.get() * self.increment;
                let usage = Usage::of_debt(self.burst, debt, self.increment);
                (Decision::admitted(usage), now.wrapping_add(debt))
            }
            room => {
                let wait = room.map(|room| time(debt - room));
                (Decision::refused(Usage::of_debt(self.burst, debt, self.increment), wait), tat)
            }
        })
    }

    pub(super) fn is_possible(&self, state: &Tat, now: Timestamp) -> bool {
        state.debt(ticks(now)) <= self.reach
    }

    pub(super) fn advance(&self, state: &mut Tat, now: Timestamp) -> bool {
        let is_possible = self.is_possible(state, now);
        if !is_possible {
            state.0 = Some(ticks(now).wrapping_add(self.capacity()));
        }
        !is_possible
    }

    #[inline]
    pub(crate) fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        let room = self.room(cost)?;
        Some(time(state.debt(ticks(now)).saturating_sub(room)))
    }

    pub(super) fn charge(
        &self,
        state: &mut Tat,
        _now: Timestamp,
        at: Timestamp,
        cost: Cost,
    ) -> u64 {
        let at = ticks(at);
        // What is charged is at most the reach.
        let debt = state.debt(at).saturating_add(cost.get().saturating_mul(self.increment));
        let tat = at.wrapping_add(debt);
        state.0 = Some(tat);
        tat
    }

    pub(super) fn most_chargeable(&self, state: &Tat, now: Timestamp) -> u64 {
        let most = self.capacity() + of_time(self.horizon);
        most.saturating_sub(state.debt(ticks(now))) / self.increment
    }

    /// A permit that has partly recovered counts as one.
    pub(super) fn give_back(
        &self,
        state: &mut Tat,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let back = self.ticks_back(*state, now, charge, permits);
        state.0 = state.0.map(|tat| tat.wrapping_sub(back));
        let is_whole = back == charge.cost.get().saturating_mul(self.increment);
        Refunded { permits: back.div_ceil(self.increment), is_whole }
    }

    #[inline]
    pub(crate) fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        Usage::of_debt(self.burst, state.debt(ticks(now)), self.increment)
    }

    pub(super) fn horizon(&self) -> Duration {
        self.horizon
    }

    pub(super) fn reach(&self) -> Duration {
        time(self.reach)
    }

    pub(super) fn fresh_after(&self, state: &Tat, now: Timestamp) -> Duration {
        time(state.debt(ticks(now)))
    }
}
