//! A bounded table of states of any size, one a key, under locks.

mod line;

use self::line::{Line, Locked, SLOTS, Slot, slot_of};
use super::{
    epoch::Epoch,
    full::Full,
    place::{index, second_index},
    present::Now,
};
use crate::{
    Timestamp,
    algorithms::{AnyTransition, State, Transition},
    sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock, try_lock},
    ticks::whole,
};
use core::time::Duration;

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to two of them. A fresh
/// state is a free slot. A key gets a slot while both of its lines are locked, the one with the lower index
/// first, so it never has two. If both are full of debtors, the table is [`Full`] for the key.
pub(crate) struct Table {
    /// Not empty.
    lines: Box<[Mutex<Line>]>,
    /// How many entries each log has for itself, at least one. So no flood of other keys merges all of its entries.
    own: usize,
    /// The other entries of all logs, and how many there may be. Beyond, a key's entries are merged.
    entries: AtomicUsize,
    max_entries: usize,
    /// The longest for which any policy of the limiter takes to recover, in nanoseconds. Slots of other keys are judged by
    /// it.
    reach: AtomicU64,
    /// How many lines have been searched for logs that have recovered.
    searched: AtomicUsize,
    pub(crate) epoch: Epoch,
}

/// The most entries that a log has for itself. From 8 on, a part of them can be merged while the newest ones stay exact.
const MOST_OWN: usize = 8;

/// How many lines a charge searches for entries to free.
const MOST_SEARCHED: usize = 4;

impl Table {
    /// Returns a table for `keys` debtors, whose logs have so many entries for each of them, and may share at least so many
    /// as one key needs. It has twice as many slots as keys, since lines do not fill evenly.
    pub(crate) fn new(keys: usize, entries_per_key: usize, of_one_key: usize) -> Self {
        let lines = (2 * keys).div_ceil(SLOTS).max(1);
        let own = entries_per_key.div_ceil(2).min(MOST_OWN);
        let shared = keys.saturating_mul(entries_per_key.saturating_sub(own));
        Self {
            lines: (0..lines).map(|_| Mutex::default()).collect(),
            own,
            entries: AtomicUsize::new(0),
            max_entries: shared.max(of_one_key),
            reach: AtomicU64::new(0),
            searched: AtomicUsize::new(0),
            epoch: Epoch::default(),
        }
    }

    /// Lets a policy use the table.
    pub(crate) fn add(&self, transition: &AnyTransition) {
        let reach = whole(transition.reach().as_nanos());
        if reach > self.reach.load(Ordering::Relaxed) {
            self.reach.fetch_max(reach, Ordering::Relaxed);
        }
    }

    /// Changes the state of a key at present, or when a waiter was `due`. A key without a slot gets one if
    /// the change charges it.
    ///
    /// The clock is read under the lock, so that no state is later than the present unless the clock
    /// steps back.
    pub(crate) fn with<R>(
        &self,
        hash: u64,
        transition: &AnyTransition,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Result<R, Full> {
        let mut line = self.first(hash);
        if let Some(slot) = line.slot_of(hash)
            && slot.state.growth(self.own) <= self.spare()
        {
            return Ok(self.update(slot, transition, clock(), due, change));
        }
        drop(line);
        self.with_both(hash, transition, clock, due, change)
    }

    /// Does what [`with`](Self::with) does for a key that has no slot in its first line, or whose log needs
    /// entries of others.
    #[cold]
    fn with_both<R>(
        &self,
        hash: u64,
        transition: &AnyTransition,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Result<R, Full> {
        let mut lines = self.both(hash);
        let now = clock();
        let growth = slot_of(hash, &mut lines).map_or(0, |slot| slot.state.growth(self.own));
        self.free_recovered_logs(&mut lines, growth, now);
        if let Some(slot) = slot_of(hash, &mut lines) {
            return Ok(self.update(slot, transition, now, due, change));
        }
        if let Some(mut slot) = lines.iter_mut().flatten().find_map(|line| line.free(now)) {
            let mut newcomer = State::Fresh;
            let result = self.apply(transition, &mut newcomer, now, due, change);
            // A refusal or a peek takes no slot.
            if !transition.is_fresh(&newcomer, now) {
                newcomer = slot.claim(hash, newcomer);
                slot.store_end(transition, now);
            }
            self.entries.fetch_sub(newcomer.entries(self.own), Ordering::Relaxed);
            return Ok(result);
        }
        // Keys of impossible states may never come back to have them repaired.
        let reach = Duration::from_nanos(self.reach.load(Ordering::Relaxed));
        lines.iter_mut().flatten().for_each(|line| line.free_by(now.saturating_add(reach)));
        let free_at = lines.iter().flatten().map(|line| line.free_at()).min().unwrap_or(now);
        Err(Full { now, wait: free_at.saturating_since(now) })
    }

    /// Makes the state of a key fresh.
    pub(crate) fn reset(&self, hash: u64) {
        let mut lines = self.both(hash);
        if let Some(slot) = slot_of(hash, &mut lines) {
            self.entries.fetch_sub(slot.state.entries(self.own), Ordering::Relaxed);
            slot.reset();
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    fn first(&self, hash: u64) -> MutexGuard<'_, Line> {
        lock(&self.lines[index(hash, self.lines.len())])
    }

    /// Locks both lines of a key, in the order of their indices, and returns the first one first.
    #[expect(clippy::indexing_slicing, reason = "the indices are below the length")]
    fn both(&self, hash: u64) -> [Locked<'_>; 2] {
        let (first, second) = (index(hash, self.lines.len()), second_index(hash, self.lines.len()));
        let lock = |index: usize| Some(lock(&self.lines[index]));
        if first == second {
            return [lock(first), None];
        }
        let (lower, upper) = (lock(first.min(second)), lock(first.max(second)));
        if first < second { [lower, upper] } else { [upper, lower] }
    }

    /// Changes the state in a slot.
    fn update<R>(
        &self,
        slot: Slot<'_>,
        transition: &AnyTransition,
        now: Timestamp,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        let result = self.apply(transition, slot.state, now, due, change);
        slot.store_end(transition, now);
        result
    }

    /// Changes a state at present, or when a waiter was `due` if the state is possible then.
    fn apply<R>(
        &self,
        transition: &AnyTransition,
        state: &mut State,
        now: Timestamp,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        let entries = state.entries(self.own);
        let at = due.filter(|due| transition.is_possible(state, *due)).unwrap_or(now);
        if transition.advance(state, at) {
            self.epoch.begin();
        }
        let reserved = self.reserve(state.growth(self.own));
        state.set_spare(reserved, self.own);
        let result = change(state, at);
        self.account(entries + reserved, state);
        result
    }

    /// Returns how many entries more there may be.
    fn spare(&self) -> usize {
        self.max_entries.saturating_sub(self.entries.load(Ordering::Relaxed))
    }

    /// Counts entries before they are allocated, because other threads grow logs, too: so many, or those that are left.
    /// Returns how many.
    fn reserve(&self, growth: usize) -> usize {
        let mut reserved = 0;
        let add = |entries: usize| {
            reserved = growth.min(self.max_entries.saturating_sub(entries));
            (reserved > 0).then_some(entries + reserved)
        };
        let _ = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        reserved
    }

    /// Counts the entries of a state of which so many were counted before.
    fn account(&self, before: usize, state: &State) {
        let after = state.entries(self.own);
        if after >= before {
            self.entries.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.entries.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Frees the entries of logs that have recovered until so many are spare: in these lines, and in a few
    /// others, in turn. Their keys may never come back, and would hold them for ever.
    fn free_recovered_logs(&self, lines: &mut [Locked<'_>], growth: usize, now: Timestamp) {
        if growth <= self.spare() {
            return;
        }
        self.free_recovered_logs_of(lines, now);
        for _ in 0..MOST_SEARCHED {
            if growth <= self.spare() {
                return;
            }
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % self.lines.len();
            // Not if a thread uses it, because that may wait for a line of this one.
            let line = self.lines.get(next).and_then(try_lock);
            self.free_recovered_logs_of(&mut [line], now);
        }
    }

    fn free_recovered_logs_of(&self, lines: &mut [Locked<'_>], now: Timestamp) {
        for state in lines.iter_mut().flatten().flat_map(|line| line.recovered(now)) {
            let entries = state.entries(self.own);
            if entries > 0 {
                self.entries.fetch_sub(entries, Ordering::Relaxed);
                *state = State::Fresh;
            }
        }
    }
}
