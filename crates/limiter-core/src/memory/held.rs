//! Operations on the states of some keys under some limits, which nobody else changes meanwhile.
//!
//! Two lists can't deadlock. Locks are taken in one order, whatever list they are for. Slots that keys have are held before
//! free slots are taken for the other keys, and nothing waits from then on: so no list waits for a slot that another one has
//! taken as a free one.
//!
//! The clock, which may panic, is read when slots are held, and before a state is taken out of its line.

use core::{mem, time::Duration};

use smallvec::SmallVec;

use super::{
    place::{Place, Times},
    table::{Line, Table, Taken},
    tables::Store,
    words::{self, Words},
};
use crate::{
    LimiterId, Timestamp,
    algorithms::{Full, KeyStates, LimitState, State},
    sync::MutexGuard,
    ticks::read,
};

/// Runs an operation on the states of these places at present, or when a waiter was `due`. A key without a slot gets one if
/// the operation charges it.
///
/// The clock is read when all states are held, so that none is later than the present unless the clock steps back.
#[inline]
pub(super) fn operate<R>(
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
                let at = due.filter(|due| place.transition.is_possible(state, *due)).unwrap_or(now);
                place.advance(state, at);
                let counted = counted + table.reserve(state);
                let mut limit = [place.limit(0, at, None)];
                let result = operation(&mut KeyStates::new(&mut [&mut *state], &mut limit));
                table.settle(counted, state);
                let end = read(now).saturating_add(place.transition.fresh_after(state, now));
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
    let begin = || place.tables.begin_epoch();
    let slot = known.map_or_else(|| words.hold_free(place.hash, now, begin), Ok);
    let mut state = slot.as_ref().map_or(State::Fresh, |slot| slot.state(place.hash));
    let at = due.filter(|due| place.transition.is_possible(&state, *due)).unwrap_or(now);
    place.advance(&mut state, at);
    let full = slot.as_ref().err().map(|wait| place.full(*wait));
    let mut limit = [place.limit(0, at, full)];
    let result = operation(&mut KeyStates::new(&mut [&mut state], &mut limit));
    if let Ok(slot) = slot {
        slot.release(place.hash, &state, now);
    }
    result
}

/// A state that is held.
struct Held<'a> {
    place: &'a Place<'a>,
    slot: Slot<'a>,
    state: State,
    /// Whether the key had a slot.
    is_known: bool,
    now: Timestamp,
    /// The moment of the operation.
    at: Timestamp,
    full: Option<Full>,
    /// For how many entries of logs the state is counted.
    counted: usize,
}

enum Slot<'a> {
    None,
    Word(words::Held<'a>),
    /// In the line at this index of those that are locked.
    Line(usize, Taken),
}

/// The lines that are locked, by the limiter and the index.
type Lines<'a> = SmallVec<[(LimiterId, usize, MutexGuard<'a, Line>); 4]>;

/// Operates on a single state under the locks of both of its lines.
///
/// Apart from [`operate_on_all`], whose lists make the first check of a key take a third longer.
fn operate_on_one<R>(
    place: &Place<'_>,
    due: Option<Timestamp>,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let mut lines = Lines::new();
    if let Some(Store::Table(table)) = place.store() {
        let [one, other] = table.lines_of(place.hash);
        lines.push((place.tables.id, one.min(other), table.lock(one.min(other))));
        if one != other {
            lines.push((place.tables.id, one.max(other), table.lock(one.max(other))));
        }
    }
    let mut held = Held::of(place);
    held.now = place.now();
    held.take(&mut lines);
    held.find_room(&mut lines);
    let due = due.filter(|due| place.transition.is_possible(&held.state, *due));
    held.advance(due, &mut lines);
    let mut limit = [place.limit(0, held.at, held.full)];
    let result = operation(&mut KeyStates::new(&mut [&mut held.state], &mut limit));
    held.put(&mut lines);
    result
}

/// Operates on states that are all held.
#[inline(never)]
fn operate_on_all<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let _debts = lock_debts(places);
    let mut lines = Lines::new();
    lock_lines(&mut lines, places, 1);
    if !places.iter().all(|place| is_settled(place, &mut lines)) {
        lines.clear();
        lock_lines(&mut lines, places, 2);
    }

    let mut held = SmallVec::<[Held<'_>; 4]>::new();
    for place in places {
        if !held.iter().any(|it| it.place.has_state_of(place)) {
            held.push(Held::of(place));
        }
    }
    held.iter_mut().for_each(Held::hold);
    let mut times = Times::default();
    held.iter_mut().for_each(|it| it.now = times.of(it.place));
    held.iter_mut().for_each(|it| it.take(&mut lines));
    held.iter_mut().for_each(|it| it.find_room(&mut lines));
    let due =
        due.filter(|due| held.iter().all(|it| it.place.transition.is_possible(&it.state, *due)));
    held.iter_mut().for_each(|it| it.advance(due, &mut lines));
    let mut limits = SmallVec::<[LimitState<'_>; 4]>::new();
    for place in places {
        let mut own = held.iter().enumerate().filter(|(_, it)| it.place.has_state_of(place));
        if let Some((index, it)) = own.next() {
            limits.push(place.limit(index, it.at, it.full));
        }
    }
    let mut states = SmallVec::<[&mut State; 4]>::new();
    for it in &mut held {
        states.push(&mut it.state);
    }
    let result = operation(&mut KeyStates::new(&mut states, &mut limits));
    drop((states, limits));
    for it in &mut held {
        it.put(&mut lines);
    }
    result
}

/// Locks the keys of all debts.
fn lock_debts<'a>(places: &[Place<'a>]) -> SmallVec<[MutexGuard<'a, ()>; 4]> {
    let mut locks = SmallVec::<[(LimiterId, usize, &Words); 4]>::new();
    for place in places {
        if let Some(Store::Words(words, _)) = place.store() {
            locks.push((place.tables.id, words.lock_of(place.hash), words));
        }
    }
    locks.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    locks.dedup_by_key(|(id, index, _)| (*id, *index));
    let mut guards = SmallVec::new();
    for (_, index, words) in locks {
        guards.push(words.lock(index));
    }
    guards
}

/// Locks the first line of all other states, or both.
fn lock_lines<'a>(lines: &mut Lines<'a>, places: &[Place<'a>], of_each: usize) {
    let mut indices = SmallVec::<[(LimiterId, usize, &Table); 8]>::new();
    for place in places {
        if let Some(Store::Table(table)) = place.store() {
            for index in table.lines_of(place.hash).into_iter().take(of_each) {
                indices.push((place.tables.id, index, table));
            }
        }
    }
    indices.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    indices.dedup_by_key(|(id, index, _)| (*id, *index));
    for (id, index, table) in indices {
        lines.push((id, index, table.lock(index)));
    }
}

/// Returns whether the first line of a place has its state, for which nothing has to be moved.
fn is_settled(place: &Place<'_>, lines: &mut Lines<'_>) -> bool {
    let Some(Store::Table(table)) = place.store() else { return true };
    let [first, _] = lines_of(place, lines);
    let state = lines.get_mut(first).and_then(|(.., line)| line.state(place.hash));
    state.is_some_and(|(_, state)| table.has_spare(state))
}

impl<'a> Held<'a> {
    fn of(place: &'a Place<'a>) -> Self {
        let (now, at) = (Timestamp::ZERO, Timestamp::ZERO);
        let (slot, state) = (Slot::None, State::Fresh);
        Self { place, slot, state, is_known: false, now, at, full: None, counted: 0 }
    }

    /// Holds the slot of a debt if the key has one.
    fn hold(&mut self) {
        if let Some(Store::Words(words, _)) = self.place.store()
            && let Some(word) = words.hold(self.place.hash)
        {
            self.state = word.state(self.place.hash);
            (self.slot, self.is_known) = (Slot::Word(word), true);
        }
    }

    /// Takes the state of a key that has a slot in one of its lines.
    #[inline(always)]
    fn take(&mut self, lines: &mut Lines<'_>) {
        for index in lines_of(self.place, lines) {
            if !self.is_known
                && let Some((.., line)) = lines.get_mut(index)
                && let Some(taken) = line.take(self.place.hash, &mut self.state)
            {
                (self.slot, self.is_known) = (Slot::Line(index, taken), true);
            }
        }
    }

    /// Holds a free slot if the key has none.
    fn find_room(&mut self, lines: &mut Lines<'_>) {
        let Self { place, now, .. } = *self;
        if self.is_known {
            return;
        }
        let wait = match place.store() {
            Some(Store::Words(words, _)) => {
                match words.hold_free(place.hash, now, || place.tables.begin_epoch()) {
                    Ok(slot) => {
                        self.slot = Slot::Word(slot);
                        return;
                    }
                    Err(wait) => wait,
                }
            }
            Some(Store::Table(table)) => {
                let (now, own) = (read(now), lines_of(place, lines));
                for index in own {
                    if let Some((.., line)) = lines.get_mut(index)
                        && let Some(taken) = line.take_free(now)
                    {
                        self.slot = Slot::Line(index, taken);
                        return;
                    }
                }
                // Keys of impossible states may never come back to have them repaired.
                let latest = now.saturating_add(table.reach());
                let ends = own.into_iter().filter_map(|index| {
                    let (.., line) = lines.get_mut(index)?;
                    line.free_by(latest);
                    Some(line.free_at())
                });
                ends.min().unwrap_or(now).saturating_since(now)
            }
            None => Duration::ZERO,
        };
        self.full = Some(place.full(wait));
    }

    /// Advances the state to the present, or to when a waiter was `due` if it is possible then, and lets its log grow by as
    /// many entries as there are.
    fn advance(&mut self, due: Option<Timestamp>, lines: &mut Lines<'_>) {
        self.at = due.unwrap_or(self.now);
        let Self { place, now, at, .. } = *self;
        let Some(Store::Table(table)) = place.store() else {
            place.advance(&mut self.state, at);
            return;
        };
        self.counted = table.entries(&self.state);
        place.advance(&mut self.state, at);
        let own = lines.iter_mut().filter(|(id, ..)| *id == place.tables.id);
        table.make_spare(&self.state, own.map(|(.., line)| &mut **line), read(now));
        self.counted += table.reserve(&mut self.state);
    }

    /// Puts the state into its slot. A refusal or a peek takes no slot.
    #[inline(always)]
    fn put(&mut self, lines: &mut Lines<'_>) {
        let Self { place, ref mut slot, ref mut state, is_known, now, counted, .. } = *self;
        match (mem::replace(slot, Slot::None), place.store()) {
            (Slot::Word(word), _) => word.release(place.hash, state, now),
            (Slot::Line(index, taken), Some(Store::Table(table))) => {
                table.settle(counted, state);
                let fresh_after = place.transition.fresh_after(state, now);
                let end = read(now).saturating_add(fresh_after);
                let is_kept = is_known || !fresh_after.is_zero();
                if let Some((.., line)) = lines.get_mut(index) {
                    line.put(taken, is_kept.then_some((place.hash, end)), state);
                    table.forget(state);
                }
            }
            _ => {}
        }
    }
}

/// Returns which of the locked lines are those of a place, the first one first.
fn lines_of(place: &Place<'_>, lines: &Lines<'_>) -> [usize; 2] {
    let Some(Store::Table(table)) = place.store() else {
        return [usize::MAX; 2];
    };
    let is = |line| {
        move |(id, index, _): &(LimiterId, usize, _)| (*id, *index) == (place.tables.id, line)
    };
    table.lines_of(place.hash).map(|line| lines.iter().position(is(line)).unwrap_or(usize::MAX))
}
