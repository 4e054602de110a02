//! A bounded table of states of any size, one a key, under locks.

use alloc::boxed::Box;
use core::fmt;

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

    /// Runs `transition` on the state of a key, brought to the present, or to the moment `at` at which a
    /// waiter was due. The clock is read under the lock, so that no state is later than the present
    /// unless the clock steps back.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        rule: &Rule,
        at: Option<Timestamp>,
        clock: &dyn Fn() -> Timestamp,
        transition: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> R {
        let mut line = lock(self.line(hash));
        let now = clock();
        let Line { slots, overflow } = &mut *line;
        let mut most = self.max_entries;
        let state = match find(slots, rule, hash, now) {
            Some(slot) if slot.hash == hash => &mut slot.state,
            Some(slot) => {
                let entries = slot.state.entries();
                let start =
                    if rule.is_fresh(overflow, now) { State::Fresh } else { overflow.merged() };
                *slot = Slot { hash, state: start };
                self.account(entries, &mut slot.state, self.max_entries);
                &mut slot.state
            }
            None => {
                // The keys of impossible states may never come back to have them repaired.
                for slot in slots.iter_mut().filter(|slot| !rule.is_possible(&slot.state, now)) {
                    let entries = slot.state.entries();
                    rule.advance(&mut slot.state, now);
                    self.account(entries, &mut slot.state, self.max_entries);
                }
                most = OVERFLOW_ENTRIES;
                overflow
            }
        };
        let entries = state.entries();
        let at = at.filter(|at| rule.is_possible(state, *at)).unwrap_or(now);
        rule.advance(state, at);
        let result = transition(state, at);
        self.account(entries, state, most);
        result
    }

    /// Makes a key fresh, unless it has no slot and shares its debt with others.
    pub(super) fn reset(&self, hash: u64, rule: &Rule, clock: &dyn Fn() -> Timestamp) {
        let mut line = lock(self.line(hash));
        let now = clock();
        if let Some(slot) = find(&mut line.slots, rule, hash, now) {
            let entries = slot.state.entries();
            *slot = Slot { hash, state: State::Fresh };
            self.account(entries, &mut slot.state, self.max_entries);
        }
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

    fn line(&self, hash: u64) -> &Mutex<Line> {
        // The high bits choose the line: a multiplication maps them onto any number of lines.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "a 64-bit hash times the length, over 2^64, is below the length"
        )]
        &self.lines[index as usize]
    }
}

/// Returns the slot of a key, or else a free one.
fn find<'a>(
    slots: &'a mut [Slot; SLOTS],
    rule: &Rule,
    hash: u64,
    now: Timestamp,
) -> Option<&'a mut Slot> {
    let mine = slots.iter().position(|slot| slot.hash == hash);
    let free = |slot: &Slot| rule.is_fresh(&slot.state, now);
    let index = mine.or_else(|| slots.iter().position(free))?;
    slots.get_mut(index)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
