//! A bounded table of states, one a key, that many threads change at once.

use alloc::{boxed::Box, sync::Arc};
use std::{fmt, sync::PoisonError};

use super::store::{Moment, Own, Past, Promised, Store, Tiers};
use crate::{Timestamp, algorithm::Algorithm, sync::Mutex};

/// States by the hash of their keys, never more than there was room for at the start.
///
/// The table is cut into lines, each under its own lock, and a hash belongs to one line. A state
/// that equals fresh is a free slot. When a line is full of debtors, the keys that find no slot
/// share one more state, the overflow: a flood of keys makes newcomers wait, and never gives
/// anyone a new allowance.
pub(super) struct Table<A: Algorithm> {
    /// Not empty.
    lines: Box<[Mutex<Line<A>>]>,
}

/// With half of them in use on average, one key in 1,250 finds its line full.
const SLOTS: usize = 16;

struct Line<A: Algorithm> {
    slots: [Slot<A::State>; SLOTS],
    /// At least the debt that any key had when it was charged here. A newcomer's slot starts from
    /// it, so that a key that was charged here does not start afresh once a slot is free.
    overflow: A::State,
    /// All lines have the same, but for the moment in which they are replaced one by one.
    tiers: Arc<Tiers<A>>,
    past: Past,
}

struct Slot<S> {
    hash: u64,
    state: S,
}

impl<A: Algorithm> Table<A> {
    /// Returns a table for `keys` debtors, at least one. It has twice as many slots, since lines do
    /// not fill evenly.
    pub(super) fn new(tiers: Arc<Tiers<A>>, keys: usize) -> Self {
        let lines = (2 * keys).div_ceil(SLOTS);
        Self { lines: (0..lines).map(|_| Mutex::new(Line::new(&tiers))).collect() }
    }

    fn line(&self, hash: u64) -> &Mutex<Line<A>> {
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

impl<A: Algorithm> Store<A> for Table<A> {
    #[inline]
    fn with<R>(
        &self,
        hash: u64,
        moment: Moment<'_>,
        promised: &Promised,
        transition: impl FnOnce(&Arc<Tiers<A>>, &mut A::State, Timestamp, Own<'_>) -> R,
    ) -> R {
        // A transition is complete or has not begun, so a line that a panic poisoned is whole.
        let mut line = self.line(hash).lock().unwrap_or_else(PoisonError::into_inner);
        let Line { slots, overflow, tiers, past } = &mut *line;
        let now = past.pass(moment);
        let state = match find(slots, tiers, hash, now) {
            Some(slot) if slot.hash == hash => &mut slot.state,
            Some(slot) => {
                // So that what is over is not cloned.
                tiers.of(0).advance(overflow, now, promised.by(now));
                *slot = Slot { hash, state: overflow.clone() };
                &mut slot.state
            }
            None => {
                // After a step back of the clock, these would stay until it has caught up: their
                // keys may never come back to have them lowered.
                let promised = promised.by(now);
                let states = slots.iter_mut().map(|slot| &mut slot.state);
                states.for_each(|state| tiers.of(0).advance(state, now, promised));
                past.moved();
                overflow
            }
        };
        transition(tiers, state, now, past.of(hash))
    }

    fn reset(&self, hash: u64, moment: Moment<'_>) {
        let mut line = self.line(hash).lock().unwrap_or_else(PoisonError::into_inner);
        let Line { slots, tiers, past, .. } = &mut *line;
        let now = past.pass(moment);
        // A key without a slot of its own shares what it owes with others.
        if let Some(slot) = find(slots, tiers, hash, now) {
            past.of(hash).reset();
            *slot = Slot { hash, state: A::State::default() };
        }
    }

    fn replace(&self, new: Arc<Tiers<A>>, moment: Moment<'_>, promised: &Promised) {
        for line in &self.lines {
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            let Line { slots, overflow, tiers, past } = &mut *line;
            if **tiers == *new {
                continue;
            }
            let now = past.pass(moment);
            let states = slots.iter_mut().map(|slot| &mut slot.state).chain([overflow]);
            states.for_each(|state| new.take_over(state, tiers, now, promised));
            past.rewritten();
            *tiers = Arc::clone(&new);
        }
    }
}

/// Returns the slot of `hash`, or else a free one.
#[inline]
fn find<'a, A: Algorithm>(
    slots: &'a mut [Slot<A::State>; SLOTS],
    tiers: &Tiers<A>,
    hash: u64,
    now: Timestamp,
) -> Option<&'a mut Slot<A::State>> {
    let free = |slot: &Slot<A::State>| tiers.of(0).is_fresh(&slot.state, now);
    let mine = slots.iter().position(|slot| slot.hash == hash);
    let index = mine.or_else(|| slots.iter().position(free))?;
    slots.get_mut(index)
}

impl<A: Algorithm> Line<A> {
    fn new(tiers: &Arc<Tiers<A>>) -> Self {
        let slot = || Slot { hash: 0, state: A::State::default() };
        Self {
            slots: core::array::from_fn(|_| slot()),
            overflow: A::State::default(),
            tiers: Arc::clone(tiers),
            past: Past::default(),
        }
    }
}

impl<A: Algorithm> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
