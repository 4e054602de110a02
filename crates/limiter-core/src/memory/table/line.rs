//! Some of a table's slots, under one lock.

use core::mem;

use crate::{Timestamp, algorithms::State};

/// With half of them in use on average, one key in 1,250 finds its first line full, and no more than three in
/// 100,000 both.
pub(super) const SLOTS: usize = 16;

/// Slots, each with an owner and a state of one index. These are apart, so that a search for a slot reads few
/// cache lines: without that, a refusal by a full table takes three times as long.
#[derive(Default)]
pub(in crate::memory) struct Line {
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
pub(in crate::memory) struct Taken {
    slot: usize,
    /// The end of the owner's debt.
    end: Timestamp,
}

impl Line {
    /// Returns the state of a key that has a slot here.
    pub(in crate::memory) fn state(&mut self, hash: u64) -> Option<(usize, &mut State)> {
        let slot = self.owners.iter().position(|owner| owner.hash == hash)?;
        Some((slot, self.states.get_mut(slot)?))
    }

    /// Sets when the debt in a slot ends.
    pub(in crate::memory) fn set_end(&mut self, slot: usize, end: Timestamp) {
        if let Some(owner) = self.owners.get_mut(slot) {
            owner.end = end;
        }
    }

    /// Swaps the state of a key that has a slot here with a fresh one.
    pub(in crate::memory) fn take(&mut self, hash: u64, fresh: &mut State) -> Option<Taken> {
        let (slot, state) = self.state(hash)?;
        mem::swap(state, fresh);
        self.mark(slot)
    }

    /// Takes a slot whose state is fresh.
    pub(in crate::memory) fn take_free(&mut self, now: Timestamp) -> Option<Taken> {
        let slot = self.owners.iter().position(|owner| owner.end <= now)?;
        self.mark(slot)
    }

    fn mark(&mut self, slot: usize) -> Option<Taken> {
        let end = mem::replace(&mut self.owners.get_mut(slot)?.end, Timestamp::MAX);
        Some(Taken { slot, end })
    }

    /// Swaps a state with the one in a slot that was taken, for the key with a hash until an end. If no key is given, the slot
    /// is as it was.
    pub(in crate::memory) fn put(
        &mut self,
        taken: Taken,
        key: Option<(u64, Timestamp)>,
        state: &mut State,
    ) {
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
    pub(super) fn reset(&mut self, hash: u64) -> Option<State> {
        let (slot, state) = self.state(hash)?;
        let state = mem::take(state);
        self.set_end(slot, Timestamp::ZERO);
        Some(state)
    }

    /// Returns when the first slot is free.
    pub(in crate::memory) fn free_at(&self) -> Timestamp {
        self.owners.iter().map(|owner| owner.end).min().unwrap_or_default()
    }

    /// Frees all slots by `latest`: later ends are of before a step back of the clock.
    pub(in crate::memory) fn free_by(&mut self, latest: Timestamp) {
        for owner in &mut self.owners {
            owner.end = owner.end.min(latest);
        }
    }

    /// Returns the states that are fresh.
    pub(super) fn recovered(&mut self, now: Timestamp) -> impl Iterator<Item = &mut State> {
        let slots = self.states.iter_mut().zip(&self.owners);
        slots.filter(move |(_, owner)| owner.end <= now).map(|(state, _)| state)
    }
}
