//! Some of a table's slots, under one lock.

use core::mem;

use crate::{
    Timestamp,
    algorithms::{AnyTransition, State, Transition},
    sync::MutexGuard,
};

/// With half of them in use on average, one key in 1,250 finds its first line full, and no more than three in
/// 100,000 both.
pub(super) const SLOTS: usize = 16;

/// Slots, each with an owner and a state of one index. These are apart, so that a search for a slot reads few
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

/// A slot of a locked line.
pub(super) struct Slot<'a> {
    owner: &'a mut Owner,
    pub(super) state: &'a mut State,
}

/// A locked line.
pub(super) type Locked<'a> = Option<MutexGuard<'a, Line>>;

impl Line {
    /// Returns the slot of a key that has one here.
    pub(super) fn slot_of(&mut self, hash: u64) -> Option<Slot<'_>> {
        self.slot(|owner| owner.hash == hash)
    }

    /// Returns a slot whose state is fresh.
    pub(super) fn free(&mut self, now: Timestamp) -> Option<Slot<'_>> {
        self.slot(|owner| owner.end <= now)
    }

    fn slot(&mut self, is_it: impl FnMut(&Owner) -> bool) -> Option<Slot<'_>> {
        let index = self.owners.iter().position(is_it)?;
        let (owner, state) = (self.owners.get_mut(index)?, self.states.get_mut(index)?);
        Some(Slot { owner, state })
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

    /// Returns the states that are fresh.
    pub(super) fn recovered(&mut self, now: Timestamp) -> impl Iterator<Item = &mut State> {
        let slots = self.states.iter_mut().zip(&self.owners);
        slots.filter(move |(_, owner)| owner.end <= now).map(|(state, _)| state)
    }
}

impl Slot<'_> {
    /// Stores the end of its state's debt, after the state was changed at `now`.
    pub(super) fn store_end(self, transition: &AnyTransition, now: Timestamp) {
        self.owner.end = now.saturating_add(transition.fresh_after(self.state, now));
    }

    /// Makes its state fresh.
    pub(super) fn reset(self) {
        *self.state = State::Fresh;
        self.owner.end = Timestamp::ZERO;
    }

    /// Gives the slot to a key, and returns the state that was in it.
    pub(super) fn claim(&mut self, hash: u64, state: State) -> State {
        self.owner.hash = hash;
        mem::replace(self.state, state)
    }
}

/// Returns the slot of a key that has one in these lines.
pub(super) fn slot_of<'a>(hash: u64, lines: &'a mut [Locked<'_>]) -> Option<Slot<'a>> {
    lines.iter_mut().flatten().find_map(|line| line.slot_of(hash))
}
