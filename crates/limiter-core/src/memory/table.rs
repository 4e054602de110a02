//! A bounded table of states of any size, one a key, under locks.

use core::{mem, time::Duration};

use super::key_hasher::{index, second_index};
use crate::{
    Timestamp,
    algorithms::{AnyTransition, State},
    sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock, try_lock},
    ticks::whole,
};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to two of them. A fresh
/// state is a free slot. A key gets a slot while both of its lines are locked, the one with the lower index
/// first, so it never has two. If both are full of debtors, the key has no state.
pub(super) struct Table {
    /// Not empty.
    lines: Box<[Mutex<Line>]>,
    /// How many entries each log has for itself, at least one. So no flood of other keys merges all of its entries.
    own: usize,
    /// The other entries of all logs, and how many there may be. Beyond, a key's entries are merged.
    entries: AtomicUsize,
    max_entries: usize,
    /// The longest time that any limit of the limiter takes to recover, in nanoseconds. Slots of other keys are judged by it.
    reach: AtomicU64,
    /// How many lines have been searched for logs that have recovered.
    searched: AtomicUsize,
}

/// The most entries that a log has for itself. From 8 on, a part of them can be merged while the newest ones stay exact.
const MOST_OWN: usize = 8;

/// How many lines a charge searches for entries to free.
const MOST_SEARCHED: usize = 4;

impl Table {
    /// Returns a table for `keys` debtors, whose logs have so many entries for each of them, and may share at least so many
    /// as one key needs. It has twice as many slots as keys, since lines do not fill evenly.
    pub(super) fn new(keys: usize, entries_per_key: usize, of_one_key: usize) -> Self {
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
        }
    }

    /// Lets a limit use the table.
    pub(super) fn add(&self, transition: &AnyTransition) {
        let reach = whole(transition.reach().as_nanos());
        if reach > self.reach.load(Ordering::Relaxed) {
            self.reach.fetch_max(reach, Ordering::Relaxed);
        }
    }

    /// Returns the indices of a key's lines, which may be one.
    pub(super) fn lines_of(&self, hash: u64) -> [usize; 2] {
        [index(hash, self.lines.len()), second_index(hash, self.lines.len())]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    pub(super) fn lock(&self, index: usize) -> MutexGuard<'_, Line> {
        lock(&self.lines[index])
    }

    /// Returns whether the log of a key needs no entries of others for the next charge.
    pub(super) fn has_spare(&self, state: &State) -> bool {
        state.growth(self.own) <= self.spare()
    }

    /// Returns for how many entries a state is counted.
    pub(super) fn entries(&self, state: &State) -> usize {
        state.entries(self.own)
    }

    /// Lets a state grow by as many entries as it needs for a charge, or by those that are left. They are counted before
    /// they are allocated, because other threads grow logs, too. Returns how many, to be [settled](Self::settle).
    pub(super) fn reserve(&self, state: &mut State) -> usize {
        let (growth, mut reserved) = (state.growth(self.own), 0);
        let add = |entries: usize| {
            reserved = growth.min(self.max_entries.saturating_sub(entries));
            (reserved > 0).then_some(entries + reserved)
        };
        let _ = self.entries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        state.set_spare(reserved, self.own);
        reserved
    }

    /// Counts the entries of a state. `before` of them were counted before.
    pub(super) fn settle(&self, before: usize, state: &State) {
        let after = state.entries(self.own);
        if after != before {
            self.entries.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Does not count the entries of a state any more.
    pub(super) fn forget(&self, state: &State) {
        let entries = state.entries(self.own);
        if entries > 0 {
            self.entries.fetch_sub(entries, Ordering::Relaxed);
        }
    }

    /// Returns the longest time for which a possible state is not fresh.
    pub(super) fn reach(&self) -> Duration {
        Duration::from_nanos(self.reach.load(Ordering::Relaxed))
    }

    /// Makes the state of a key fresh.
    pub(super) fn reset(&self, hash: u64) {
        let [one, other] = self.lines_of(hash);
        // Both at once: a key that moved from one to the other would be reset twice.
        let lower = self.lock(one.min(other));
        let upper = (one != other).then(|| self.lock(one.max(other)));
        for mut line in [Some(lower), upper].into_iter().flatten() {
            if let Some(state) = line.reset(hash) {
                self.forget(&state);
            }
        }
    }

    /// Returns how many entries more there may be.
    fn spare(&self) -> usize {
        self.max_entries.saturating_sub(self.entries.load(Ordering::Relaxed))
    }

    /// Frees the entries of logs that have recovered until so many are spare as a state needs: in these lines, and in a few
    /// others, in turn. Their keys may never come back, and would hold them for ever.
    pub(super) fn make_spare<'a>(
        &self,
        state: &State,
        lines: impl Iterator<Item = &'a mut Line>,
        now: Timestamp,
    ) {
        if self.has_spare(state) {
            return;
        }
        lines.for_each(|line| self.free_recovered_logs(line, now));
        for _ in 0..MOST_SEARCHED {
            if self.has_spare(state) {
                return;
            }
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % self.lines.len();
            // Not if a thread uses it, because that may wait for a line of this one.
            if let Some(mut line) = self.lines.get(next).and_then(try_lock) {
                self.free_recovered_logs(&mut line, now);
            }
        }
    }

    fn free_recovered_logs(&self, line: &mut Line, now: Timestamp) {
        for state in line.recovered(now) {
            if state.entries(self.own) > 0 {
                self.forget(state);
                *state = State::Fresh;
            }
        }
    }
}

/// With half of them in use on average, one key in 1,250 finds its first line full, and no more than three in
/// 100,000 both.
const SLOTS: usize = 16;

/// Slots: an owner and a state of one index. Owners are in an array of their own, so that a search for a slot reads few
/// cache lines: without that, a refusal by a full table takes three times as long.
#[derive(Default)]
pub(super) struct Line {
    owners: [Owner; SLOTS],
    states: [State; SLOTS],
}

#[derive(Default)]
struct Owner {
    hash: u64,
    /// The end of its debt.
    end: Timestamp,
}

/// A slot whose state was taken out of a locked line. Nobody else finds it free meanwhile.
pub(super) struct Taken {
    slot: usize,
    /// The end of the owner's debt.
    end: Timestamp,
}

impl Line {
    /// Returns the state of a key that has a slot here.
    pub(super) fn state(&mut self, hash: u64) -> Option<(usize, &mut State)> {
        let slot = self.owners.iter().position(|owner| owner.hash == hash)?;
        Some((slot, self.states.get_mut(slot)?))
    }

    /// Sets when the debt in a slot ends.
    pub(super) fn set_end(&mut self, slot: usize, end: Timestamp) {
        if let Some(owner) = self.owners.get_mut(slot) {
            owner.end = end;
        }
    }

    /// Swaps the state of a key that has a slot here with a fresh one.
    pub(super) fn take(&mut self, hash: u64, fresh: &mut State) -> Option<Taken> {
        let (slot, state) = self.state(hash)?;
        mem::swap(state, fresh);
        self.mark(slot)
    }

    /// Takes a slot whose state is fresh.
    pub(super) fn take_free(&mut self, now: Timestamp) -> Option<Taken> {
        let slot = self.owners.iter().position(|owner| owner.end <= now)?;
        self.mark(slot)
    }

    fn mark(&mut self, slot: usize) -> Option<Taken> {
        let end = mem::replace(&mut self.owners.get_mut(slot)?.end, Timestamp::MAX);
        Some(Taken { slot, end })
    }

    /// Swaps a state with the one in a slot that was taken, for the key with a hash until an end. If no key is given, the slot
    /// is as it was.
    pub(super) fn put(&mut self, taken: Taken, key: Option<(u64, Timestamp)>, state: &mut State) {
        let Taken { slot, end } = taken;
        if let Some((owner, place)) = self.owners.get_mut(slot).zip(self.states.get_mut(slot)) {
            owner.end = end;
            if let Some((hash, end)) = key {
                *owner = Owner { hash, end };
                mem::swap(place, state);
            }
        }
    }

    /// Makes the state of a key fresh, and returns it.
    fn reset(&mut self, hash: u64) -> Option<State> {
        let (slot, state) = self.state(hash)?;
        let state = mem::take(state);
        self.set_end(slot, Timestamp::ZERO);
        Some(state)
    }

    /// Returns when the first slot is free.
    pub(super) fn free_at(&self) -> Timestamp {
        self.owners.iter().map(|owner| owner.end).min().unwrap_or_default()
    }

    /// Frees all slots by `latest`: later ends are of before a step back of the clock.
    pub(super) fn free_by(&mut self, latest: Timestamp) {
        for owner in &mut self.owners {
            owner.end = owner.end.min(latest);
        }
    }

    /// Returns the states whose debt has ended.
    fn recovered(&mut self, now: Timestamp) -> impl Iterator<Item = &mut State> {
        let slots = self.states.iter_mut().zip(&self.owners);
        slots.filter(move |(_, owner)| owner.end <= now).map(|(state, _)| state)
    }
}
