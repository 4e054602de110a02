//! A bounded table of states of any size, one a key, under locks.

use super::words::{Epoch, Now, index};
use crate::{
    Timestamp,
    algorithm::{Rule, State, Transition},
    sync::{AtomicUsize, Mutex, Ordering, lock, try_lock},
};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to one line. A fresh
/// state is a free slot. If a line is full of debtors, the keys that find no slot share one more
/// state, of bounded size. A key that finds a slot later starts from that state, so a flood of keys
/// makes newcomers wait, and never gives a key a new allowance.
pub(super) struct Table {
    /// Not empty.
    lines: Box<[Mutex<Line>]>,
    /// The entries of all logs, and how many there may be. Beyond, permits join the newest entry of
    /// their key.
    entries: AtomicUsize,
    max_entries: usize,
    /// How many lines have been searched for logs that have recovered.
    searched: AtomicUsize,
    pub(super) epoch: Epoch,
}

/// With half of them in use on average, one key in 1,250 finds its line full.
const SLOTS: usize = 16;

/// How many lines a charge searches for entries to free.
const MOST_SEARCHED: usize = 4;

#[derive(Default)]
struct Line {
    slots: [Slot; SLOTS],
    /// What the keys without a slot owe together. Logs have one entry here: in a flood, longer ones
    /// would take all the entries that there may be (`cargo xtask bench flood`).
    shared: State,
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
        Self {
            lines,
            entries: AtomicUsize::new(0),
            max_entries,
            searched: AtomicUsize::new(0),
            epoch: Epoch::default(),
        }
    }

    /// Changes the state of a key, or that which it shares, at present or when a waiter was `due`, by
    /// the rule that `change` receives. Returns whether the debt of other keys counted.
    ///
    /// The clock is read under the lock, so that no state is later than the present unless the clock
    /// steps back.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&Rule, &mut State, Timestamp) -> R,
    ) -> (R, bool) {
        let mut line = lock(part_of(&self.lines, hash));
        let now = clock();
        let at = |state: &State| due.filter(|due| rule.is_possible(state, *due)).unwrap_or(now);
        let own = line.slots.iter().find(|slot| slot.hash == hash);
        let growth = own.map_or(1, |own| own.state.growth());
        if growth > self.spare() {
            self.free_recovered_logs(&mut line, growth, rule, now);
        }
        let Line { slots, shared } = &mut *line;
        if let Some(Slot { state, .. }) = slots.iter_mut().find(|slot| slot.hash == hash) {
            let at = at(state);
            return (self.apply(rule, state, at, |state| change(rule, state, at)), false);
        }
        let at = at(shared);
        self.apply(rule, shared, at, |_| ());
        let is_shared = !rule.is_fresh(shared, at);
        let mut start = if is_shared { shared.clone() } else { State::Fresh };
        let asking = rule.shared(&mut start, at);
        let mut state = start.clone();
        let result = change(&asking, &mut state, at);
        if state == start {
            // If nothing was charged, the slot stays free.
            return (result, is_shared);
        }
        if let Some(slot) = slots.iter_mut().find(|slot| rule.is_fresh(&slot.state, now)) {
            self.account(slot.state.entries(), &state);
            *slot = Slot { hash, state };
            return (result, is_shared);
        }
        // The keys of impossible states may never come back to have them repaired.
        for slot in slots.iter_mut().filter(|slot| !rule.is_possible(&slot.state, now)) {
            self.apply(rule, &mut slot.state, now, |_| ());
        }
        let before = shared.entries();
        *shared = state;
        self.account(before, shared);
        (result, true)
    }

    /// Changes the state of a key that has a slot.
    pub(super) fn change<R>(
        &self,
        hash: u64,
        rule: &Rule,
        clock: Now<'_>,
        change: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Option<R> {
        let mut line = lock(part_of(&self.lines, hash));
        let slot = line.slots.iter_mut().find(|slot| slot.hash == hash)?;
        let now = clock();
        Some(self.apply(rule, &mut slot.state, now, |state| change(state, now)))
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

    /// Frees the entries of logs that have recovered until so many are spare: in this line, and in a few
    /// others, in turn. Their keys may never come back, and would hold them for ever.
    fn free_recovered_logs(&self, line: &mut Line, growth: usize, rule: &Rule, now: Timestamp) {
        self.free_recovered_logs_of(line, rule, now);
        for _ in 0..MOST_SEARCHED {
            if growth <= self.spare() {
                return;
            }
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % self.lines.len();
            // Not if another thread uses it, because that may wait for this line.
            if let Some(mut next) = self.lines.get(next).and_then(try_lock) {
                self.free_recovered_logs_of(&mut next, rule, now);
            }
        }
    }

    fn free_recovered_logs_of(&self, line: &mut Line, rule: &Rule, now: Timestamp) {
        for Slot { state, .. } in &mut line.slots {
            if state.entries() > 0 && rule.is_fresh(state, now) {
                self.entries.fetch_sub(state.entries(), Ordering::Relaxed);
                *state = State::Fresh;
            }
        }
    }
}

/// Returns which of the parts of a table a hash belongs to.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the index is below the length")]
pub(super) fn part_of<T>(parts: &[T], hash: u64) -> &T {
    &parts[index(hash, parts.len())]
}
