//! The state of the log and of sub-windows.

use alloc::collections::VecDeque;

use smallvec::SmallVec;

/// A key's entries. Fresh has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// By time, each later than the one before, none with a count of zero.
    pub(super) entries: VecDeque<Entry>,
    /// The sum of the counts.
    pub(super) total: u64,
    /// The quotas that count these entries, one for each length.
    pub(super) writers: SmallVec<[Writer; 1]>,
    /// The largest limit that has been charged since there were no entries. No quota that has charged them
    /// has to find more permits.
    largest: u64,
    /// How many entries there may be. Beyond, new permits join the newest entry.
    room: usize,
}

/// The most quotas of different lengths that one state keeps apart.
const MOST_WRITERS: usize = 4;

/// Permits that were taken in one slot. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the last of its permits was taken. Not the start of its slot: another quota has other
    /// slots.
    pub at: u64,
    /// How many they are.
    pub count: u64,
}

/// How long a quota counts entries. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// How long a slot is.
    pub slot: u64,
    /// From the start of an entry's slot.
    pub length: u64,
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

/// A quota that has charged a state, and may count its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// For how long it counts them.
    pub span: Span,
    /// How far ahead its entries can be, in nanoseconds.
    pub horizon: u64,
    /// When its newest permits were taken. Once these have ended, it counts nothing.
    pub newest: u64,
}

impl Writer {
    /// Returns when it will not count permits any more that were taken at `at`, by itself or by others.
    fn end_of(&self, at: u64) -> u64 {
        self.span.end_of(at.min(self.newest))
    }

    /// Counts all that this or another writer counts.
    fn join(&mut self, other: Self) {
        if self.span != other.span {
            // Slots of two lengths share no grid.
            self.span = Span { slot: 1, length: self.span.length.max(other.span.length) };
        }
        self.horizon = self.horizon.max(other.horizon);
        self.newest = self.newest.max(other.newest);
    }
}

impl Default for Entries {
    fn default() -> Self {
        let (entries, writers) = (VecDeque::new(), SmallVec::new());
        Self { entries, total: 0, writers, largest: 0, room: usize::MAX }
    }
}

impl Entries {
    /// Returns the state of these entries, the oldest first. `largest` is the largest limit that has been charged.
    #[must_use]
    pub fn new(
        entries: impl IntoIterator<Item = Entry>,
        writers: impl IntoIterator<Item = Writer>,
        largest: u64,
    ) -> Self {
        let (entries, writers) = (VecDeque::from_iter(entries), writers.into_iter().collect());
        let total = entries.iter().map(|entry| entry.count).sum();
        Self { entries, total, writers, largest, room: usize::MAX }
    }

    /// Returns the entries, the oldest first.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the quotas that count these entries.
    #[must_use]
    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }

    /// Returns the largest limit that has been charged since there were no entries.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        self.largest
    }

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
        Self { entries, writers: self.writers.clone(), room: usize::MAX, ..*self }
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        *self = Self { room: self.room, ..Self::default() };
    }

    /// Returns whether `span` is that of all quotas that count these entries.
    pub(super) fn are_counted_only_for(&self, span: Span) -> bool {
        self.writers.iter().all(|writer| writer.span == span)
    }

    /// Returns when permits will not count any more, for any quota, that were taken at `at`.
    pub(super) fn end_of(&self, at: u64) -> u64 {
        self.writers.iter().map(|writer| writer.end_of(at)).max().unwrap_or(0)
    }

    /// Returns how far ahead of now the newest entry can be.
    pub(super) fn reach(&self) -> u64 {
        let reaches = self.writers.iter().map(|writer| writer.horizon.max(writer.span.slot));
        reaches.max().unwrap_or(0)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.total -= oldest.count;
        }
    }

    /// Drops what no quota counts any more at `now`.
    pub(super) fn drop_ended(&mut self, now: u64) {
        while self.entries.front().is_some_and(|oldest| self.end_of(oldest.at) <= now) {
            self.drop_oldest();
        }
        if self.writers.len() > 1 {
            self.writers.retain(|writer| writer.end_of(u64::MAX) > now);
        }
        let (allocated, used) = (self.allocated(), self.entries.len());
        if used == 0 {
            self.clear();
        } else if allocated > 4 * used.max(4) {
            // So that a burst does not keep its memory; seldom enough to cost nothing on average.
            self.entries.shrink_to(2 * used);
        }
    }

    /// Drops the oldest permits that no quota has to find, one with this limit included: those before as
    /// many as the largest limit. Permits that are reserved for later don't count among these, because they
    /// may be refunded.
    pub(super) fn drop_surplus(&mut self, now: u64, limit: u64) {
        self.largest = self.largest.max(limit);
        if self.writers.len() < 2 {
            return;
        }
        let later = self.entries.iter().rev().take_while(|entry| entry.at > now);
        let later: u64 = later.map(|entry| entry.count).sum();
        while let Some(oldest) = self.entries.front()
            && oldest.at <= now
            && self.total - later - oldest.count >= self.largest
        {
            self.drop_oldest();
        }
    }

    /// Takes permits from an entry that has as many.
    pub(super) fn take_from(&mut self, index: usize, permits: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.count -= permits;
            self.total -= permits;
            if entry.count == 0 {
                self.entries.remove(index);
            }
        }
        if self.entries.is_empty() {
            self.clear();
        }
    }

    /// Adds permits that are charged at `now` for the writer's newest moment, and returns the time of their
    /// entry. They join the newest entry if it is later, if both are in one slot of every quota, or if the
    /// state may not have another entry.
    pub(super) fn enter(&mut self, writer: Writer, now: u64, count: u64) -> u64 {
        let at = writer.newest;
        self.add_writer(writer);
        let count = count.min(u64::MAX - self.total);
        self.total += count;
        let newest = self.entries.back().map(|newest| newest.at);
        let is_in_slot = |it: &Writer| {
            newest.is_some_and(|newest| it.span.slot_of(newest) >= it.span.slot_of(at))
        };
        let needs_entry = !self.writers.iter().all(is_in_slot) && self.make_room(now);
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
    /// is free. So permits come back later by a part of their age, and the newest ones, which a shorter quota
    /// counts beside a longer one, hardly later.
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

    fn add_writer(&mut self, writer: Writer) {
        let is_full = self.writers.len() == MOST_WRITERS;
        if let Some(own) = self.writers.iter_mut().find(|other| other.span == writer.span) {
            own.join(writer);
        } else if is_full && let Some(last) = self.writers.last_mut() {
            last.join(writer);
        } else {
            self.writers.push(writer);
        }
    }
}
