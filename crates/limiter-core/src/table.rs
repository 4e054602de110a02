//! A bounded table of states, one a key, that many threads change at once.

use alloc::boxed::Box;
use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use crate::{Cost, Decision, Timestamp, algorithm::Algorithm};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to one line. A state
/// that equals fresh is a free slot. When a line is full of debtors, the keys that find no slot
/// share one more state, the overflow: a flood of keys makes newcomers wait, and never gives
/// anyone a new allowance.
pub(crate) struct Table<A: Algorithm> {
    algorithm: A,
    /// Not empty.
    lines: Box<[Mutex<Line<A::State>>]>,
}

/// With half of them in use on average, one key in 1,250 finds its line full.
const SLOTS: usize = 16;

struct Line<S> {
    slots: [Slot<S>; SLOTS],
    /// At least the debt that any key had when it was charged here. A newcomer's slot starts from
    /// it, so that a key that was charged here does not start afresh once a slot is free.
    overflow: S,
}

struct Slot<S> {
    hash: u64,
    state: S,
}

impl<A: Algorithm> Table<A> {
    /// Returns a table for `keys` debtors, at least one. It has twice as many slots, since lines do
    /// not fill evenly.
    pub(crate) fn new(algorithm: A, keys: usize) -> Self {
        let lines = (2 * keys).div_ceil(SLOTS);
        Self { algorithm, lines: (0..lines).map(|_| Mutex::default()).collect() }
    }

    /// Decides on `cost` for the key with `hash`, and charges it if it is admitted.
    pub(crate) fn decide(&self, hash: u64, now: Timestamp, cost: Cost) -> Decision {
        // The high bits choose the line: a multiplication maps them onto any number of lines.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "a 64-bit hash times the length, over 2^64, is below the length"
        )]
        let line = &self.lines[index as usize];
        // A transition is complete or has not begun, so a line that a panic poisoned is whole.
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        let state = line.state_of(&self.algorithm, hash, now);
        self.algorithm.decide(state, now, cost)
    }
}

impl<S: Clone + Default> Line<S> {
    fn state_of<A>(&mut self, algorithm: &A, hash: u64, now: Timestamp) -> &mut S
    where
        A: Algorithm<State = S>,
    {
        let mine = self.slots.iter().position(|slot| slot.hash == hash);
        let free = || self.slots.iter().position(|slot| algorithm.is_fresh(&slot.state, now));
        let Some(index) = mine.or_else(free) else {
            // After a step back of the clock, these would stay until it has caught up: their keys
            // may never come back to have them clamped.
            self.slots.iter_mut().for_each(|slot| algorithm.clamp(&mut slot.state, now));
            return &mut self.overflow;
        };
        #[expect(clippy::indexing_slicing, reason = "it was found there")]
        let slot = &mut self.slots[index];
        if slot.hash != hash {
            *slot = Slot { hash, state: self.overflow.clone() };
        }
        &mut slot.state
    }
}

impl<S: Default> Default for Line<S> {
    fn default() -> Self {
        let slot = || Slot { hash: 0, state: S::default() };
        Self { slots: core::array::from_fn(|_| slot()), overflow: S::default() }
    }
}

impl<A: Algorithm + fmt::Debug> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("algorithm", &self.algorithm)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}
