//! Counters of whole windows: the fixed window, the aligned window and the sliding counter.

use core::time::Duration;

use super::{
    nanos::{LAST, nanos},
    transition::{Refunded, Transition, most_chargeable},
    window::{Counts, Window},
};
use crate::{Cost, Quota, Timestamp, Usage, charge::Charge, ticks::whole};

/// A counter that starts anew with each window; of a sliding counter, the count of the window before
/// fades meanwhile.
///
/// Two windows' permits can be taken around the end of a fixed or aligned window, so a trailing
/// window can admit up to `2 * permits`. The sliding counter is exact if the previous window's
/// permits were taken evenly. If they were taken at its end, a trailing window can admit up to
/// `2 * permits - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    kind: WindowKind,
    limit: u64,
    /// In nanoseconds, like all times here.
    length: u64,
    /// How far ahead of now permits may be promised.
    horizon: u64,
}

/// When windows open, and whether they fade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// A window opens with the first permit after the last one ended.
    Fixed,
    /// Windows open at multiples of their length.
    Aligned,
    /// Windows follow each other from a key's first use on. The previous window counts by the part of
    /// it that a window ending now would still cover.
    Sliding,
}

impl Windows {
    /// Returns the algorithm for `quota`, whose permits may be promised as far ahead as `horizon`.
    #[must_use]
    pub fn new(kind: WindowKind, quota: &Quota, horizon: Duration) -> Self {
        let length = whole(quota.window().as_nanos());
        let horizon = whole(horizon.as_nanos()).min(LAST - length);
        Self { kind, limit: quota.permits(), length, horizon }
    }

    fn fades(&self) -> bool {
        self.kind == WindowKind::Sliding
    }

    fn is_aligned(&self) -> bool {
        self.kind == WindowKind::Aligned
    }

    /// Returns when a window ends that opens at `at`.
    fn end_from(&self, at: u64) -> u64 {
        if self.is_aligned() { (at / self.length + 1) * self.length } else { at + self.length }
    }

    /// Returns how far ahead of now the newest window can end.
    fn latest_end(&self) -> u64 {
        // A full count that replaces an impossible one fills the next aligned window, too.
        let start = if self.is_aligned() { self.horizon.max(self.length) } else { self.horizon };
        self.length + start
    }

    /// Returns when the newest window begins. Nothing is charged before.
    fn begin_at(&self, state: &Counts) -> u64 {
        let newest = state.newest();
        if newest.current == 0 { 0 } else { newest.end.saturating_sub(self.length) }
    }

    /// Returns the window that decides at a moment, if anything counts.
    fn at(&self, state: &Counts, now: u64) -> Option<Window> {
        state.newest().at(now, self.length, self.fades())
    }

    /// Returns how many permits count at a moment at which the newest window has begun.
    fn counted(&self, state: &Counts, at: u64) -> u64 {
        self.at(state, at).map_or(0, |window| window.counted(at, self.length))
    }

    /// Returns the first moment from `now` on at which a cost fits, which may be 0: `None` for never.
    #[must_use]
    pub fn fits_at(&self, state: &Counts, now: u64, cost: u64) -> Option<u64> {
        let room = self.limit.checked_sub(cost)?;
        let from = now.max(self.begin_at(state));
        let fits_at = |window: Window| window.fits_at(room, self.length, self.fades()).max(from);
        Some(self.at(state, from).map_or(from, fits_at))
    }

    fn fresh_after_nanos(&self, state: &Counts, now: u64) -> u64 {
        state.newest().fresh_at(self.length, self.fades()).saturating_sub(now)
    }

    /// Takes up to `permits` of a charge from a state, and returns how many.
    fn take_back(&self, state: &mut Counts, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        let permits = permits.min(charge.cost.get());
        state.take_back(permits, charge.mark, nanos(now), self.length, self.fades())
    }
}

impl Transition for Windows {
    type State = Counts;

    fn is_possible(&self, state: &Counts, now: Timestamp) -> bool {
        state.newest().end.saturating_sub(nanos(now)) <= self.latest_end()
    }

    /// A window that has ended stays until a charge or a refund, because the clock may step back to it.
    fn advance(&self, state: &mut Counts, now: Timestamp) -> bool {
        if self.is_possible(state, now) {
            return false;
        }
        let Window { current, previous, .. } = state.newest();
        let current = current.saturating_add(previous).max(self.limit);
        let end = self.end_from(nanos(now));
        // The present aligned window may be about to end.
        let end = if self.is_aligned() { end + self.length } else { end };
        *state = [Window { end, current, previous: 0 }].into_iter().collect();
        true
    }

    fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let now = nanos(now);
        let fits_at = self.fits_at(state, now, cost.get())?;
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    fn charge(&self, state: &mut Counts, now: Timestamp, at: Timestamp, cost: Cost) -> u64 {
        let (now, at) = (nanos(now), nanos(at));
        let opened = Window { end: self.end_from(at), current: 0, previous: 0 };
        let window = self.at(state, at).unwrap_or(opened);
        let current = window.current.saturating_add(cost.get());
        state.set_newest(Window { current, ..window }, now, self.length, self.fades());
        window.end
    }

    fn most_chargeable(&self, state: &Counts, now: Timestamp) -> u64 {
        let now = nanos(now);
        if self.begin_at(state) > now {
            return 0;
        }
        most_chargeable(self.limit, self.counted(state, now), state.newest().current)
    }

    fn refundable(
        &self,
        state: &Counts,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        Refunded::of(charge, self.take_back(&mut state.clone(), now, charge, permits))
    }

    fn give_back(&self, state: &mut Counts, now: Timestamp, charge: &Charge, permits: u64) {
        self.take_back(state, now, charge, permits);
    }

    fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let now = nanos(now);
        let from = now.max(self.begin_at(state));
        let room = self.limit.saturating_sub(self.counted(state, from));
        let remaining = if from <= now { room } else { 0 };
        let reset_after = Duration::from_nanos(self.fresh_after_nanos(state, now));
        Usage::new(self.limit, remaining, reset_after)
    }

    fn horizon(&self) -> Duration {
        Duration::from_nanos(self.horizon)
    }

    fn reach(&self) -> Duration {
        Duration::from_nanos(self.latest_end() + if self.fades() { self.length } else { 0 })
    }

    fn fresh_after(&self, state: &Counts, now: Timestamp) -> Duration {
        Duration::from_nanos(self.fresh_after_nanos(state, nanos(now)))
    }
}
