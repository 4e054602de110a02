//! A bounded table of states of any size, one a key, under locks.

use super::word::Now;
use crate::{
    Timestamp,
    algorithm::{Rule, State, Transition},
    sync::{AtomicUsize, Mutex, Ordering, lock},
};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to one line. A fresh
/// state is a free slot. If a line is full of debtors, the keys that find no slot share one more
/// state, the overflow. A key that finds a slot while the overflow owes something starts from a
/// state of bounded size that owes at least as much, so a flood of keys makes newcomers wait, and
/// never gives a key a new allowance.
pub(super) struct Table {
    /// Not empty.
    lines: Box<[Mutex<Line>]>,
    /// The entries of all logs, and how many there may be. Beyond, entries are merged.
    entries: AtomicUsize,
    max_entries: usize,
}

/// With half of them in use on average, one key in 1,250 finds its line full.
const SLOTS: usize = 16;

/// The entries of a log that keys without a slot share. In a flood, longer ones would take all the
/// entries that there may be, and leave twice as much memory in pieces (`cargo xtask bench flood`).
const OVERFLOW_ENTRIES: usize = 16;

#[derive(Default)]
struct Line {
    slots: [Slot; SLOTS],
    overflow: State,
}

#[derive(Default)]
struct Slot {
    hash: u64,
    state: State,
}

impl Table {
    /// Returns a table for `keys` debtors, whose logs have up to `max_entries` entries together. It
    /// has twice as many slots as keys, since lines do not fill evenly.
    pub(super) fn new(keys: usize, max_entries: usize) -> Self {
        let lines = (2 * keys).div_ceil(SLOTS).max(1);
        let lines = (0..lines).map(|_| Mutex::new(Line::default())).collect();
        Self { lines, entries: AtomicUsize::new(0), max_entries }
    }

    /// Changes the state of a key, or that which it shares, at present or when a waiter was `due`. The
    /// clock is read under the lock, so that no state is later than the present unless the clock steps
    /// back.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        let mut line = lock(part_of(&self.lines, hash));
        let now = clock();
        let at = |state: &State| due.filter(|due| rule.is_possible(state, *due)).unwrap_or(now);
        let Line { slots, overflow } = &mut *line;
        let free = || slots.iter().position(|slot| rule.is_fresh(&slot.state, now));
        let index = slots.iter().position(|slot| slot.hash == hash).or_else(free);
        match index.and_then(|index| slots.get_mut(index)) {
            Some(Slot { hash: owner, state }) if *owner == hash => {
                self.apply(rule, state, self.max_entries, at(state), change)
            }
            Some(slot) => {
                let is_fresh = rule.is_fresh(overflow, now);
                let mut state = if is_fresh { State::Fresh } else { overflow.merged() };
                rule.advance(&mut state, now);
                let start = state.clone();
                let at = at(&state);
                let result = change(&mut state, at);
                // If nothing was charged, the slot stays free.
                if state != start {
                    self.account(slot.state.entries(), &mut state, self.max_entries);
                    *slot = Slot { hash, state };
                }
                result
            }
            None => {
                // The keys of impossible states may never come back to have them repaired.
                for slot in slots.iter_mut().filter(|slot| !rule.is_possible(&slot.state, now)) {
                    self.apply(rule, &mut slot.state, self.max_entries, now, |_, _| ());
                }
                self.apply(rule, overflow, OVERFLOW_ENTRIES, at(overflow), change)
            }
        }
    }

    /// Changes the state of a key, unless the key has no slot. A key without one shares its debt with
    /// others.
    pub(super) fn change<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Option<R> {
        let mut line = lock(part_of(&self.lines, hash));
        let slot = line.slots.iter_mut().find(|slot| slot.hash == hash)?;
        Some(self.apply(rule, &mut slot.state, self.max_entries, clock(), change))
    }

    fn apply<R>(
        &self,
        rule: &Rule,
        state: &mut State,
        most: usize,
        now: Timestamp,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        let entries = state.entries();
        rule.advance(state, now);
        let result = change(state, now);
        self.account(entries, state, most);
        result
    }

    /// Counts the entries of a state that had so many before, and merges some if there are more than
    /// `most`, or too many in all states.
    fn account(&self, before: usize, state: &mut State, most: usize) {
        let mut after = state.entries();
        if after > before {
            let others = self.entries.load(Ordering::Relaxed).saturating_sub(before);
            if after > most || others + after > self.max_entries {
                state.merge_newest();
                after = state.entries();
            }
        }
        if after >= before {
            self.entries.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.entries.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

/// Returns which of the parts of a table a hash belongs to.
#[inline]
pub(super) fn part_of<T>(parts: &[T], hash: u64) -> &T {
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "a 64-bit hash times the length, over 2^64, is below the length"
    )]
    &parts[((u128::from(hash) * parts.len() as u128) >> 64) as usize]
}
