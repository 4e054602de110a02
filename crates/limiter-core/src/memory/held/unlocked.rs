//! Operations on debts by GCRA without a lock.

use smallvec::SmallVec;

use super::{
    super::{
        tables::Store,
        words::{OwnSlot, Words},
    },
    place::{Place, Times},
};
use crate::{
    algorithms::{KeyStates, LimitState, State, Tat, Transition},
    ticks::ticks,
};

/// A debt by GCRA that was read without a lock.
struct Read<'a> {
    words: &'a Words,
    slot: OwnSlot<'a>,
    before: Tat,
    state: State,
    epoch: u64,
}

/// Operates on copies of debts by GCRA in the common case: all keys have their slots, and no other thread changes them
/// meanwhile. Returns `None` in any other case, and if the operation lowers a debt. Nothing is charged then.
pub(super) fn operate_without_locks<R>(
    places: &[Place<'_>],
    operation: &mut impl FnMut(&mut KeyStates<'_, '_>) -> R,
) -> Option<R> {
    let mut reads = SmallVec::<[Read<'_>; 4]>::new();
    for (index, place) in places.iter().enumerate() {
        let Some(Store::Words(words, _)) = place.tables.store(place.transition) else {
            return None;
        };
        let slot = words.own(place.hash)?;
        let before = slot.tat()?;
        let (state, epoch) = (State::Gcra(before), place.tables.epoch.get());
        reads.push(Read { words, slot, before, state, epoch });
        if places.iter().take(index).any(|other| other.has_state_of(place)) {
            return None;
        }
    }
    let mut limits = SmallVec::<[LimitState<'_>; 4]>::new();
    let mut states = SmallVec::<[&mut State; 4]>::new();
    let mut times = Times::default();
    for (index, (place, read)) in places.iter().zip(&mut reads).enumerate() {
        let now = times.of(place);
        if !place.transition.is_possible(&read.state, now) {
            return None;
        }
        limits.push(place.limit(index, now, None));
        states.push(&mut read.state);
    }
    let result = operation(&mut KeyStates::new(&mut states, &mut limits));
    drop((states, limits));
    let is_raised =
        |read: &Read<'_>| read.after() == read.before || read.slot.raise(read.before, read.after());
    let Some(raced) = reads.iter().position(|read| !is_raised(read)) else { return Some(result) };
    for (read, place) in reads.iter().zip(places).take(raced) {
        let now = times.of(place);
        let charged = read.after().debt(ticks(now)) - read.before.debt(ticks(now));
        // A debt that has replaced an impossible one counts for what was charged before.
        let counts = || place.tables.epoch.get() == read.epoch;
        read.words.lower(place.hash, charged, counts, now);
    }
    None
}

impl Read<'_> {
    fn after(&self) -> Tat {
        if let State::Gcra(tat) = self.state { tat } else { self.before }
    }
}
