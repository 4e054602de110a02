//! The state of the log and of sub-windows.

use alloc::collections::VecDeque;

/// A key's entries. Fresh has none.
#[derive(Debug, PartialEq, Eq)]
pub struct Entries {
    /// By time, each later than the one before, none with a count of zero.
    pub(super) entries: VecDeque<Entry>,
    /// The sum of the counts.
    pub(super) total: u64,
    /// How many entries there may be. Beyond, new permits join the newest entry.
    room: usize,
}

/// Permits that were taken in one slot. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When the last of its permits was taken.
    pub(super) at: u64,
    /// How many they are.
    pub(super) count: u64,
}

/// How long entries count. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    /// How long a slot is.
    pub(super) slot: u64,
    /// From the start of an entry's slot.
    pub(super) length: u64,
}

impl Span {
    /// Returns the start of the slot of `at`.
    pub(super) const fn slot_of(&self, at: u64) -> u64 {
        at - at % self.slot
    }

    /// Returns when permits will not count any more that were taken at `at`.
    pub(super) const fn end_of(&self, at: u64) -> u64 {
        self.slot_of(at).saturating_add(self.length)
    }
}

/// A clone has as much memory, so that in place of the original it merges no more entries.
impl Clone for Entries {
    fn clone(&self) -> Self {
        let mut entries = VecDeque::with_capacity(self.allocated());
        entries.extend(&self.entries);
        Self { entries, total: self.total, room: self.room }
    }
}

impl Default for Entries {
    fn default() -> Self {
        Self { entries: VecDeque::new(), total: 0, room: usize::MAX }
    }
}

impl Entries {
    /// Returns for how many entries memory is allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.entries.capacity()
    }

    /// Returns for how many entries more it would allocate memory for the next one.
    pub(crate) fn growth(&self) -> usize {
        let used = self.entries.len();
        if used < self.allocated() { 0 } else { used.max(1) }
    }

    /// Lets the state have so many entries, and some more.
    pub(crate) fn set_room(&mut self, entries: usize, more: usize) {
        self.room = entries.saturating_add(more).max(1);
    }

    /// Returns a copy in which the newest entries, with at most so many permits, are merged to the latest of their
    /// dates. Takes time in proportion to the other entries. The copy may have any number of entries.
    pub(super) fn copy_merging_newest(&self, permits: u64) -> Self {
        let entries = if permits == 0 {
            self.entries.clone()
        } else {
            let (mut kept, mut rest) = (0, self.total);
            while rest > permits
                && let Some(entry) = self.entries.get(kept)
            {
                rest -= entry.count;
                kept += 1;
            }
            let newest = self.entries.range(kept..).next_back();
            let merged = newest.map(|newest| Entry { at: newest.at, count: rest });
            self.entries.range(..kept).copied().chain(merged).collect()
        };
        Self { entries, total: self.total, room: usize::MAX }
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        *self = Self { room: self.room, ..Self::default() };
    }

    /// Returns the permits that count at `now`, and the index of the first of their entries.
    pub(super) fn counted(&self, span: Span, now: u64) -> (u64, usize) {
        let ended = self.entries.iter().take_while(|entry| span.end_of(entry.at) <= now);
        ended.fold((self.total, 0), |(total, first), entry| (total - entry.count, first + 1))
    }

    /// Returns the permits that were taken in the slot of `at`, and the index of the first of their entries.
    pub(super) fn in_slot(&self, span: Span, at: u64) -> (u64, usize) {
        let slot = span.slot_of(at);
        let first = self.entries.partition_point(|entry| span.slot_of(entry.at) < slot);
        (self.entries.range(first..).map(|entry| entry.count).sum(), first)
    }

    /// Returns from which moment on, `at` or later, at most `room` of these permits count.
    pub(super) fn fits_at(
        &self,
        span: Span,
        (mut total, first): (u64, usize),
        room: u64,
        mut at: u64,
    ) -> u64 {
        for entry in self.entries.range(first..) {
            if total <= room {
                break;
            }
            total -= entry.count;
            at = at.max(span.end_of(entry.at));
        }
        at
    }

    /// Drops what does not count any more at `now`.
    pub(super) fn drop_ended(&mut self, span: Span, now: u64) {
        while let Some(oldest) = self.entries.front()
            && span.end_of(oldest.at) <= now
        {
            self.total -= oldest.count;
            self.entries.pop_front();
        }
        let (allocated, used) = (self.allocated(), self.entries.len());
        if used == 0 {
            self.clear();
        } else if allocated > 4 * used.max(4) {
            // So that a burst does not keep its memory; seldom enough to cost nothing on average.
            self.entries.shrink_to(2 * used);
        }
    }

    /// Takes permits from an entry that has as many.
    pub(super) fn take_from(&mut self, index: usize, permits: u64) -> u64 {
        let Some(entry) = self.entries.get_mut(index) else { return 0 };
        let taken = permits.min(entry.count);
        entry.count -= taken;
        self.total -= taken;
        if entry.count == 0 {
            self.entries.remove(index);
        }
        if self.entries.is_empty() {
            self.clear();
        }
        taken
    }

    /// Adds permits that are charged at `now` for the moment `at`, and returns the time of their entry. They join the
    /// newest entry if it is later, if both are in one slot, or if the state may not have another entry.
    pub(super) fn enter(&mut self, span: Span, now: u64, at: u64, count: u64) -> u64 {
        let count = count.min(u64::MAX - self.total);
        self.total += count;
        let is_in_slot = |newest: &Entry| span.slot_of(newest.at) >= span.slot_of(at);
        let needs_entry = !self.entries.back().is_some_and(is_in_slot) && self.make_room(now);
        match self.entries.back_mut() {
            Some(last) if !needs_entry => {
                last.at = last.at.max(at);
                last.count += count;
                last.at
            }
            _ => {
                self.entries.push_back(Entry { at, count });
                at
            }
        }
    }

    /// Returns whether there is memory for another entry, allocated or made by merging others. It grows by a
    /// quarter or more, so that an entry takes constant time on average also where little is spare.
    fn make_room(&mut self, now: u64) -> bool {
        let used = self.entries.len();
        if used == self.allocated() {
            let more = self.growth().min(self.room.saturating_sub(used));
            if more >= (used / 4).max(1) {
                self.entries.reserve_exact(more);
            }
        }
        if used >= self.allocated().min(self.room) {
            self.merge(now);
        }
        self.entries.len() < self.allocated().min(self.room)
    }

    /// Merges entries to the latest of their dates, the more the older they are, until a quarter of the entries
    /// is free. So permits come back later by a part of their age.
    fn merge(&mut self, now: u64) {
        let used = self.entries.len();
        // Reserved permits keep their moments. With enough others, a factor exists.
        if used <= 4 || self.entries.get(used / 2).is_none_or(|middle| middle.at >= now) {
            return;
        }
        let mut factor = 2;
        while self.entries.len() > used - used / 4 {
            self.merge_within(|at| {
                u128::from(now.saturating_sub(at)).saturating_mul(factor) / used as u128
            });
            factor *= 2;
        }
    }

    /// Merges entries that are at most so far from the last of them.
    fn merge_within(&mut self, farthest: impl Fn(u64) -> u128) {
        // The date of the first entry that was merged into the last one, which is the newest entry meanwhile.
        let mut since = None;
        for _ in 0..self.entries.len() {
            let Some(next) = self.entries.pop_front() else { return };
            match (since, self.entries.back_mut()) {
                (Some(since), Some(last)) if u128::from(next.at - since) <= farthest(next.at) => {
                    *last = Entry { at: next.at, count: last.count + next.count };
                }
                _ => {
                    since = Some(next.at);
                    self.entries.push_back(next);
                }
            }
        }
    }
}
