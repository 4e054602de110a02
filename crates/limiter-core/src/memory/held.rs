//! Operations on the states of some keys under some limits, which nobody else changes meanwhile.

mod locked;
mod place;

use self::locked::{operate_on_all, operate_on_one};
pub(crate) use self::place::{Place, Times};
use super::{tables::Store, words::Words};
use crate::{
    Timestamp,
    algorithms::{KeyStates, State, Transition},
};

/// Runs an operation on the states of these places at present, or when a waiter was `due`. A key without a slot gets one if
/// the operation charges it.
///
/// The clock is read when all states are held, so that none is later than the present unless the clock steps back.
#[inline]
pub(crate) fn operate<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let [place] = places else { return operate_on_all(places, due, operation) };
    match place.store() {
        Some(Store::Words(words, _)) => return operate_on_debt(place, words, due, operation),
        Some(Store::Table(table)) => {
            let [first, _] = table.lines_of(place.hash);
            let mut line = table.lock(first);
            if let Some((slot, state)) = line.state(place.hash)
                && table.has_spare(state)
            {
                // The common case: nothing has to be moved.
                let now = place.now();
                let counted = table.entries(state);
                let at = place.advance(state, now, due);
                let counted = counted + table.reserve(state);
                let mut limit = [place.limit(0, at, None)];
                let result = operation(&mut KeyStates::new(&mut [&mut *state], &mut limit));
                table.settle(counted, state);
                let end = now.saturating_add(place.transition.fresh_after(state, now));
                line.set_end(slot, end);
                return result;
            }
        }
        None => {}
    }
    operate_on_one(place, due, operation)
}

/// Operates on a debt under the lock of its key.
fn operate_on_debt<R>(
    place: &Place<'_>,
    words: &Words,
    due: Option<Timestamp>,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let _lock = words.lock(words.lock_of(place.hash));
    let known = words.hold(place.hash);
    let now = place.now();
    let slot = known.map_or_else(|| place.free_slot(words, now), Ok);
    let mut state = slot.as_ref().map_or(State::Fresh, |slot| slot.state(place.hash));
    let at = place.advance(&mut state, now, due);
    let mut limit = [place.limit(0, at, slot.as_ref().err().copied())];
    let result = operation(&mut KeyStates::new(&mut [&mut state], &mut limit));
    if let Ok(slot) = slot {
        slot.release(place.hash, &state, now);
    }
    result
}
