//! A bounded table of states of any size, one a key, under locks.

use core::{mem, time::Duration};

use super::{
    place::{Full, index, second_index},
    words::{Epoch, Now},
};
use crate::{
    Timestamp,
    algorithm::{Rule, State, Transition},
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock, try_lock},
};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to two of them. A fresh
/// state is a free slot. A key gets a slot while both of its lines are locked, the one with the lower index
/// first, so it never has two. If both are full of debtors, the table is [`Full`] for the key.
pub(super) struct Table {
    /// Not empty.
    lines: Box<[Mutex<Line>]>,
    /// The entries of all logs, and how many there may be. Beyond, a key's entries are merged.
    entries: AtomicUsize,
    max_entries: usize,
    /// How many lines have been searched for logs that have recovered.
    searched: AtomicUsize,
    pub(super) epoch: Epoch,
}

/// With half of them in use on average, one key in 1,250 finds its first line full, and no more than three in
/// 100,000 both.
const SLOTS: usize = 16;

/// How many lines a charge searches for entries to free.
const MOST_SEARCHED: usize = 4;

#[derive(Default)]
struct Line([Slot; SLOTS]);

#[derive(Default)]
struct Slot {
    hash: u64,
    state: State,
}

/// A locked line.
type Locked<'a> = Option<MutexGuard<'a, Line>>;

/// Returns the slots of locked lines.
fn slots<'a>(lines: &'a mut [Locked<'_>]) -> impl Iterator<Item = &'a mut Slot> {
    lines.iter_mut().flatten().flat_map(|line| &mut line.0)
}

fn slot_of<'a>(hash: u64, lines: &'a mut [Locked<'_>]) -> Option<&'a mut Slot> {
    slots(lines).find(|slot| slot.hash == hash)
}

impl Table {
    /// Returns a table for `keys` debtors, whose logs have up to `max_entries` entries together. It
    /// has twice as many slots as keys, since lines do not fill evenly.
    pub(super) fn new(keys: usize, max_entries: usize) -> Self {
        let lines = (2 * keys).div_ceil(SLOTS).max(1);
        Self {
            lines: (0..lines).map(|_| Mutex::default()).collect(),
            entries: AtomicUsize::new(0),
            max_entries,
            searched: AtomicUsize::new(0),
            epoch: Epoch::default(),
        }
    }

    /// Changes the state of a key at present, or when a waiter was `due`. A key without a slot gets one if
    /// the change charges it.
    ///
    /// The clock is read under the lock, so that no state is later than the present unless the clock
    /// steps back.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Result<R, Full> {
        let change_slot = |slot: &mut Slot, now| {
            let at = due.filter(|due| rule.is_possible(&slot.state, *due)).unwrap_or(now);
            self.apply(rule, &mut slot.state, at, |state| change(state, at))
        };
        let mut first = [Some(self.first(hash))];
        if let Some(slot) = slot_of(hash, &mut first)
            && slot.state.growth() <= self.spare()
        {
            return Ok(change_slot(slot, clock()));
        }
        drop(first);
        let mut lines = self.both(hash);
        let now = clock();
        let growth = slot_of(hash, &mut lines).map_or(1, |slot| slot.state.growth());
        self.free_recovered_logs(&mut lines, growth, rule, now);
        if let Some(slot) = slot_of(hash, &mut lines) {
            return Ok(change_slot(slot, now));
        }
        let mut wait = Duration::MAX;
        let free = slots(&mut lines).position(|slot| {
            wait = wait.min(rule.fresh_after(&slot.state, now));
            wait.is_zero()
        });
        if let Some(slot) = free.and_then(|index| slots(&mut lines).nth(index)) {
            let mut newcomer = Slot { hash, state: State::Fresh };
            let result = change_slot(&mut newcomer, now);
            // A refusal or a peek takes no slot.
            let is_charged = !rule.is_fresh(&newcomer.state, now);
            let dropped = if is_charged { mem::replace(slot, newcomer) } else { newcomer };
            self.entries.fetch_sub(dropped.state.entries(), Ordering::Relaxed);
            return Ok(result);
        }
        // Keys of impossible states may never come back to have them repaired.
        let impossible = slots(&mut lines).filter(|slot| !rule.is_possible(&slot.state, now));
        if impossible.map(|slot| self.apply(rule, &mut slot.state, now, |_| ())).count() > 0 {
            let waits = slots(&mut lines).map(|slot| rule.fresh_after(&slot.state, now));
            wait = waits.min().unwrap_or_default();
        }
        Err(Full { now, wait })
    }

    /// Changes the state of a key that has a slot.
    pub(super) fn change<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Option<R> {
        let mut lines = self.both(hash);
        let slot = slot_of(hash, &mut lines)?;
        let now = clock();
        Some(self.apply(rule, &mut slot.state, now, |state| change(state, now)))
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

    fn apply<R>(
        &self,
        rule: &Rule,
        state: &mut State,
        now: Timestamp,
        change: impl FnOnce(&mut State) -> R,
    ) -> R {
        let entries = state.entries();
        if !rule.is_possible(state, now) {
            self.epoch.begin();
        }
        rule.advance(state, now);
        state.set_spare(self.spare());
        let result = change(state);
        self.account(entries, state);
        result
    }

    /// Returns how many entries more there may be.
    fn spare(&self) -> usize {
        self.max_entries.saturating_sub(self.entries.load(Ordering::Relaxed))
    }

    /// Counts the entries of a state that had so many before.
    fn account(&self, before: usize, state: &State) {
        let after = state.entries();
        if after >= before {
            self.entries.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.entries.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Frees the entries of logs that have recovered until so many are spare: in these lines, and in a few
    /// others, in turn. Their keys may never come back, and would hold them for ever.
    fn free_recovered_logs(
        &self,
        lines: &mut [Locked<'_>],
        growth: usize,
        rule: &Rule,
        now: Timestamp,
    ) {
        if growth <= self.spare() {
            return;
        }
        self.free_recovered_logs_of(lines, rule, now);
        for _ in 0..MOST_SEARCHED {
            if growth <= self.spare() {
                return;
            }
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % self.lines.len();
            // Not if a thread uses it, because that may wait for a line of this one.
            let line = self.lines.get(next).and_then(try_lock);
            self.free_recovered_logs_of(&mut [line], rule, now);
        }
    }

    fn free_recovered_logs_of(&self, lines: &mut [Locked<'_>], rule: &Rule, now: Timestamp) {
        for Slot { state, .. } in slots(lines) {
            if state.entries() > 0 && rule.is_fresh(state, now) {
                self.entries.fetch_sub(state.entries(), Ordering::Relaxed);
                *state = State::Fresh;
            }
        }
    }
}
