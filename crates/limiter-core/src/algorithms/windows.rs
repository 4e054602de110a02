//! Counters of whole windows: the fixed window, the aligned window and the sliding counter.

use core::time::Duration;

use super::{
    counted::most_chargeable,
    nanos::{LAST, nanos},
    transition::{Refunded, Transition},
    window::{Counts, Window},
};
use crate::{
    Cost, Quota, Timestamp, Usage,
    charge::{Charge, Marks},
    ticks::whole,
};

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

    /// Returns when a window of this length ends that opens at `at`.
    fn end_from(&self, at: u64, length: u64) -> u64 {
        if self.is_aligned() { (at / length + 1) * length } else { at + length }
    }

    /// Returns this quota's window at `now`.
    fn own(&self, state: &Counts, now: u64) -> Option<Window> {
        state.own(self.length, now, self.fades())
    }

    /// Returns the windows that a window of this length takes its count from, if it opens at `now`: those
    /// that count since a moment within its own length. Their previous counts are older.
    fn sources(&self, state: &Counts, now: u64) -> impl Iterator<Item = Window> {
        state.at(now, self.fades()).filter(move |window| {
            window.current > 0 && window.since.saturating_add(self.length) > now
        })
    }

    /// Returns until when a window of this length that opens later takes its count from this one.
    fn is_source_until(&self, window: &Window) -> u64 {
        window.end.min(window.since.saturating_add(self.length))
    }

    /// Returns the window that opens at `now`: with the count of the fullest of its sources, and since the
    /// same moment, so that no count is dated anew.
    fn opened(&self, state: &Counts, now: u64) -> Window {
        let fullest = self.sources(state, now).max_by_key(|it| (it.current, it.since));
        let (since, current) = fullest.map_or((now, 0), |it| (it.since, it.current));
        let end = self.end_from(if self.is_aligned() { now } else { since }, self.length);
        let (length, shortest) = (self.length, self.length);
        Window { end, length, since, shortest, reach: 0, current, previous: 0 }
    }

    /// Returns how many permits count for this quota at `from`, which is no earlier than what was reserved.
    fn counted(&self, state: &Counts, from: u64) -> u64 {
        self.own(state, from).map_or_else(
            || self.sources(state, from).map(|it| it.current).max().unwrap_or(0),
            |own| own.counted(from),
        )
    }

    /// Returns the moment that a charge was made for, and the length and the end of its window.
    fn place_of(&self, charge: &Charge) -> (u64, (u64, u64)) {
        (nanos(charge.at), (self.length, charge.marks.first()))
    }

    /// Returns the first moment from `now` on at which a cost fits, which may be 0: `None` for never.
    #[must_use]
    pub fn fits_at(&self, state: &Counts, now: u64, cost: u64) -> Option<u64> {
        let room = self.limit.checked_sub(cost)?;
        Some(self.has_room_at(state, now.max(state.begin_at()), room))
    }

    /// Returns the first moment from `from` on at which at most `room` of this quota's permits count.
    fn has_room_at(&self, state: &Counts, from: u64, room: u64) -> u64 {
        let own = self.own(state, from);
        if let Some(own) = own {
            let fits_at = own.fits_at(room, self.fades()).max(from);
            if fits_at < own.fresh_at(self.fades()) {
                return fits_at;
            }
        }
        // When its own window has ended, the next one opens.
        let from = own.map_or(from, |own| own.fresh_at(self.fades()));
        let others = self.sources(state, from).filter(|window| window.current > room);
        others.map(|window| self.is_source_until(&window)).fold(from, u64::max)
    }
}

impl Transition for Windows {
    type State = Counts;

    fn is_possible(&self, state: &Counts, now: Timestamp) -> bool {
        let now = nanos(now);
        state.0.iter().all(|window| window.end.saturating_sub(now) <= window.reach)
    }

    /// A full debt keeps the length and the counts of the quota that wrote the state, which may be
    /// larger. That of aligned windows fills the next one too: the present one may be about to end.
    ///
    /// A window that has ended stays until a charge or a refund, because the clock may step back to it.
    fn advance(&self, state: &mut Counts, now: Timestamp) -> bool {
        if self.is_possible(state, now) {
            return false;
        }
        let now = nanos(now);
        state.drop_earlier();
        for window in &mut state.0 {
            if window.end.saturating_sub(now) > window.reach {
                let end = self.end_from(now, window.length);
                window.end = if self.is_aligned() { end + window.length } else { end };
                window.since = now;
                window.reach = window.reach.max(window.end - now);
                window.current = window.current.saturating_add(window.previous).max(self.limit);
                window.previous = 0;
            }
        }
        true
    }

    fn wait(&self, state: &Counts, now: Timestamp, cost: Cost) -> Option<Duration> {
        let now = nanos(now);
        let fits_at = self.fits_at(state, now, cost.get())?;
        Some(Duration::from_nanos(fits_at.saturating_sub(now)))
    }

    fn charge(&self, state: &mut Counts, now: Timestamp, at: Timestamp, cost: Cost) -> Marks {
        let (now, at, fades) = (nanos(now), nanos(at), self.fades());
        let charged = |window: Window| Window {
            current: window.current.saturating_add(cost.get()),
            ..window
        };
        state.drop_succeeded(now);
        let own = self.own(state, at).unwrap_or_else(|| self.opened(state, at));
        state.0.retain(|window| {
            *window = window.at(now, fades).unwrap_or(*window);
            // The present window stays as it is until the one begins that is reserved.
            let is_before = now < window.end && window.end <= at;
            is_before || window.at(at, fades).map(|present| *window = charged(present)).is_some()
        });
        let own = state.own_or_add(self.length, charged(own));
        own.map_or_else(Marks::default, |own| {
            own.reach = own.reach.max(self.length + self.horizon);
            Marks::one(own.end)
        })
    }

    fn most_chargeable(&self, state: &Counts, now: Timestamp) -> u64 {
        let (now, fades) = (nanos(now), self.fades());
        if state.begin_at() > now {
            return 0;
        }
        let counts = state.at(now, fades).map(|window| window.current);
        most_chargeable(self.limit, self.counted(state, now), counts.max().unwrap_or(0))
    }

    fn refundable(
        &self,
        state: &Counts,
        now: Timestamp,
        charge: &Charge,
        permits: u64,
    ) -> Refunded {
        let permits = permits.min(charge.cost.get());
        let (charged_for, own) = self.place_of(charge);
        let windows = state.at(nanos(now), self.fades());
        let counts = windows
            .filter_map(|mut window| window.count_of(charged_for, own, self.fades()).copied());
        let back = counts.map(|count| count.min(permits));
        let (least, most) =
            back.fold((u64::MAX, 0), |(least, most), back| (least.min(back), most.max(back)));
        Refunded { permits: most, is_whole: least == charge.cost.get() }
    }

    fn give_back(&self, state: &mut Counts, now: Timestamp, charge: &Charge, permits: u64) {
        let permits = permits.min(charge.cost.get());
        let (charged_for, own) = self.place_of(charge);
        state.drop_succeeded(nanos(now));
        for window in &mut state.0 {
            if let Some(mut present) = window.at(nanos(now), self.fades())
                && let Some(count) = present.count_of(charged_for, own, self.fades())
            {
                *count = count.saturating_sub(permits);
                // It stays also if nothing is left in it, because the clock may step back to before it.
                *window = present;
            }
        }
        state.drop_refunded(nanos(now));
    }

    fn usage(&self, state: &Counts, now: Timestamp) -> Usage {
        let (now, begin_at, fades) = (nanos(now), state.begin_at(), self.fades());
        let from = now.max(begin_at);
        let own = self.own(state, from);
        let room = self.limit.saturating_sub(self.counted(state, from));
        let remaining = if begin_at <= now { room } else { 0 };
        let fresh_at = own.map_or(from, |own| own.fresh_at(fades));
        let others = self.sources(state, fresh_at).map(|it| self.is_source_until(&it));
        let fresh_at = others.fold(fresh_at, u64::max);
        let reset_after = Duration::from_nanos(fresh_at.saturating_sub(now));
        Usage::new(self.limit, remaining, reset_after)
    }

    fn fresh_after(&self, state: &Counts, now: Timestamp) -> Duration {
        let (now, fades) = (nanos(now), self.fades());
        let ends = state.at(now, fades).map(|window| window.fresh_at(fades));
        Duration::from_nanos(ends.max().map_or(0, |end| end - now))
    }

    /// Behind windows of other lengths nothing is promised: a window that opens when one of them ends may
    /// take its count from another one that is open now, and would admit something now.
    fn longest_delay(&self, state: &Counts, now: Timestamp) -> Duration {
        let mut windows = state.at(nanos(now), self.fades());
        let has_others = windows.any(|window| window.length != self.length);
        Duration::from_nanos(if has_others { 0 } else { self.horizon })
    }
}
