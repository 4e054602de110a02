//! Operations on the states of some keys under some limits, which nobody else changes meanwhile.

mod locked;
mod place;

use self::locked::{operate_on_all, operate_on_one};
pub(crate) use self::place::{Place, Times};
use super::tables::Store;
use crate::{
    Timestamp,
    algorithms::{KeyStates, Transition},
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
    if let Some(Store::Table(table)) = place.tables.store(place.transition) {
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
            let result =
                operation(&mut KeyStates::new(&mut [&mut *state], &mut [place.limit(0, at, None)]));
            table.settle(counted, state);
            let end = now.saturating_add(place.transition.fresh_after(state, now));
            line.set_end(slot, end);
            return result;
        }
    }
    operate_on_one(place, due, operation)
}
