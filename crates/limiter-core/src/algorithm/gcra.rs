//! GCRA, the generic cell rate algorithm.

use core::time::Duration;

use super::{Charge, Marks, Scale, Transition, nanos, whole};
use crate::{Cost, Quota, Timestamp, Usage};

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
    scale: Scale,
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

/// A key's debt at one moment, by one quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'s> {
    /// When the debt is drained, in ticks of the writer: now, where there is none.
    at: u64,
    /// Now, in nanoseconds, and in ticks of this quota.
    nanos: u64,
    ticks: u64,
    /// The debt in ticks of this quota, rounded up.
    debt: u64,
    /// The scale of a debt that another quota wrote.
    writer: Option<&'s Scale>,
    /// Whether the writer can have left this debt.
    pub(crate) is_possible: bool,
}

#[cfg(feature = "std")]
impl View<'_> {
    /// Returns when the debt is drained, in ticks of its writer.
    pub(crate) const fn end(&self) -> u64 {
        self.at
    }

    /// Returns the debt in ticks of the quota that asks.
    pub(crate) const fn debt(&self) -> u64 {
        self.debt
    }

    /// Returns whether another quota wrote the debt.
    pub(crate) const fn is_foreign(&self) -> bool {
        self.writer.is_some()
    }

    /// Returns now in ticks of this quota.
    pub(crate) const fn ticks(&self) -> u64 {
        self.ticks
    }
}

impl Gcra {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(quota: &Quota, horizon: Duration) -> Self {
        let scale = Scale::new(quota, horizon);
        let (burst, capacity) = (quota.burst(), quota.burst() * scale.increment());
        Self { scale, burst, capacity, horizon }
    }

    /// Returns the own debt that ends at `at`.
    #[inline]
    pub(crate) fn view(&self, at: u64, now: Timestamp) -> View<'static> {
        let nanos = nanos(now);
        let ticks = self.scale.ticks(nanos);
        let debt = at.saturating_sub(ticks);
        let is_possible = debt <= self.scale.reach();
        View { at: at.max(ticks), nanos, ticks, debt, writer: None, is_possible }
    }

    /// Returns the debt that ends at `at` by the scale of another quota.
    pub(crate) fn view_of_another<'s>(
        &self,
        at: u64,
        writer: &'s Scale,
        now: Timestamp,
    ) -> View<'s> {
        let nanos = nanos(now);
        let ticks = self.scale.ticks(nanos);
        let debt = at.saturating_sub(writer.ticks(nanos));
        if debt == 0 {
            return View { at: ticks, nanos, ticks, debt, writer: None, is_possible: true };
        }
        let own = u128::from(debt) * u128::from(self.scale.increment());
        let own = whole(own.div_ceil(u128::from(writer.increment().max(1))));
        let is_possible = debt <= writer.reach();
        View { at, nanos, ticks, debt: own, writer: Some(writer), is_possible }
    }

    /// Returns the view after an impossible state was replaced by a full debt: of another quota, the
    /// largest that it can have left, so that no quota of a smaller burst gives it a new allowance.
    pub(crate) fn full<'s>(&self, view: &View<'s>) -> View<'s> {
        if let Some(writer) = view.writer {
            let at = writer.ticks(view.nanos) + writer.reach();
            return self.view_of_another(at, writer, Timestamp::from_nanos(view.nanos));
        }
        // From the end of the present tick, so that no step back gains one.
        let at = self.scale.ticks_rounded_up(view.nanos) + self.capacity;
        View { at, debt: at - view.ticks, is_possible: true, ..*view }
    }

    /// Returns the largest debt at which `cost` fits, `None` if it never fits.
    #[inline]
    pub(crate) const fn room(&self, cost: Cost) -> Option<u64> {
        if cost.get() > self.burst {
            return None;
        }
        Some(self.capacity - cost.get() * self.scale.increment())
    }

    /// Returns how long `cost` has to wait, `None` if it never fits.
    #[inline]
    pub(crate) fn wait_in(&self, view: &View<'_>, cost: Cost) -> Option<Duration> {
        let room = self.room(cost)?;
        if view.debt <= room {
            return Some(Duration::ZERO);
        }
        Some(match view.writer {
            None => self.scale.until(view.at - room, view.nanos),
            Some(writer) => {
                let room = u128::from(room) * u128::from(writer.increment());
                let room = whole(room / u128::from(self.scale.increment()));
                writer.until(view.at.saturating_sub(room), view.nanos)
            }
        })
    }

    /// Returns when the debt is drained after `cost` was charged, in the own ticks.
    ///
    /// Another quota's debt is dated from the end of the present tick: from its beginning, two quotas
    /// in turn would gain a tick with each charge.
    #[inline]
    pub(crate) fn charged(&self, view: &View<'_>, cost: Cost) -> u64 {
        let debt_ends = match view.writer {
            None => view.at,
            Some(_) => self.scale.ticks_rounded_up(view.nanos).saturating_add(view.debt),
        };
        // What fits is at most the capacity, and what does not fit is not charged.
        debt_ends.saturating_add(cost.get().saturating_mul(self.scale.increment()))
    }

    #[inline]
    pub(crate) fn usage_in(&self, view: &View<'_>) -> Usage {
        let Some(writer) = view.writer else {
            return Usage::of_debt(self.burst, view.at, view.nanos, self.scale);
        };
        let remaining = self.capacity.saturating_sub(view.debt) / self.scale.increment();
        Usage::new(self.burst, remaining, writer.until(view.at, view.nanos))
    }

    /// Returns when the debt is drained after a refund, and how many permits it gives back. A permit
    /// that has partly recovered counts as one.
    ///
    /// A charge drains from the moment it was made for. The mark does not show how much of it is
    /// left, because earlier debts may have been refunded since. Reservations behind the charge keep their
    /// moments, so a refund gives back only the part of the charge that they don't overlap.
    pub(crate) fn refunded(&self, view: &View<'_>, charge: &Charge, permits: u64) -> (u64, u64) {
        if view.writer.is_some() || view.debt == 0 {
            return (view.at, 0);
        }
        let increment = self.scale.increment();
        let permits = permits.min(charge.cost.get());
        let (price, mark) = (permits.saturating_mul(increment), charge.marks.first());
        let drained = view.ticks.saturating_sub(self.scale.ticks(nanos(charge.at)));
        let left = charge.cost.get().saturating_mul(increment).saturating_sub(drained);
        let mut back = price.min(left).min(view.debt);
        if view.debt > self.capacity {
            back = back.min(price.saturating_sub(view.at.saturating_sub(mark)));
        }
        (view.at - back, back.div_ceil(increment))
    }

    fn view_of<'s>(&self, state: &'s Tat, now: Timestamp) -> View<'s> {
        if state.scale == self.scale {
            self.view(state.at, now)
        } else {
            self.view_of_another(state.at, &state.scale, now)
        }
    }

    const fn state(&self, at: u64) -> Tat {
        Tat { at, scale: self.scale }
    }
}

/// What a word has besides the transition.
#[cfg(feature = "std")]
impl Gcra {
    /// Returns the scale of the debts that this quota writes.
    pub(crate) const fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Returns the view that follows a charge, by which the debt is drained at `at`.
    #[inline]
    pub(crate) const fn after(&self, view: &View<'_>, at: u64) -> View<'static> {
        let (nanos, ticks, is_possible) = (view.nanos, view.ticks, view.is_possible);
        View { at, nanos, ticks, debt: at.saturating_sub(ticks), writer: None, is_possible }
    }

    /// Returns how far ahead permits may be promised. A debt that another quota wrote drains at
    /// that quota's pace until it is charged anew, so nothing is promised behind it.
    pub(crate) const fn longest_delay_in(&self, view: &View<'_>) -> Duration {
        match view.writer {
            None => self.horizon,
            Some(_) => Duration::ZERO,
        }
    }
}

impl Transition for Gcra {
    type State = Tat;

    fn is_possible(&self, state: &Tat, now: Timestamp) -> bool {
        self.view_of(state, now).is_possible
    }

    fn advance(&self, state: &mut Tat, now: Timestamp) {
        let view = self.view_of(state, now);
        if !view.is_possible {
            state.at = self.full(&view).at;
        }
    }

    fn wait(&self, state: &Tat, now: Timestamp, cost: Cost) -> Option<Duration> {
        self.wait_in(&self.view_of(state, now), cost)
    }

    fn charge(&self, state: &mut Tat, at: Timestamp, cost: Cost) -> Marks {
        *state = self.state(self.charged(&self.view_of(state, at), cost));
        Marks::one(state.at)
    }

    fn refund(&self, state: &mut Tat, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let view = self.view_of(state, now);
        let (at, back) = self.refunded(&view, charge, permits);
        if back > 0 {
            state.at = at;
        }
        back
    }

    fn usage(&self, state: &Tat, now: Timestamp) -> Usage {
        self.usage_in(&self.view_of(state, now))
    }

    fn longest_delay(&self, state: &Tat) -> Duration {
        if state.scale == self.scale || *state == Tat::default() {
            self.horizon
        } else {
            Duration::ZERO
        }
    }
}
