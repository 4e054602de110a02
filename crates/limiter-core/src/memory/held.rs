//! The states of some keys under some limits, all of which are held while an operation runs.
//!
//! Locks are taken in one order, whatever list they are for: so two lists never wait for each other. A slot that some key
//! has is held before any slot is looked for that is free. Nothing waits from then on, so no list waits for a slot which
//! another one has taken as a free one.

use core::time::Duration;

use smallvec::SmallVec;

use super::{
    full::OnFull,
    table::{Line, Table, Taken},
    tables::{Store, Tables},
    words::{self, OwnSlot, Words},
};
use crate::{
    Clock, LimiterId, Timestamp,
    algorithms::{AnyTransition, Full, KeyStates, LimitState, State, Tat, Transition},
    sync::MutexGuard,
    ticks::ticks,
};

/// Where a key's state under a limit is.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) transition: &'a AnyTransition,
    /// Of the key, combined with the limit's salt.
    pub(crate) hash: u64,
    /// Whether the state is never charged. Then a key for which the table is full is a fresh one.
    pub(crate) only_asks: bool,
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

/// Runs an operation on the states of these places at present, or when a waiter was `due`. A key without a slot gets one if
/// the operation charges it.
///
/// The clock is read when all states are held, so that none is later than the present unless the clock steps back.
#[inline]
pub(crate) fn operate<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    mut operation: impl FnMut(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let [place] = places else { return operate_on_many(places, due, operation) };
    match place.tables.store(place.transition) {
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
                let result = operation(&mut KeyStates::new(
                    &mut [&mut *state],
                    &mut [place.limit(0, at, None)],
                ));
                table.settle(counted, state);
                let end = now.saturating_add(place.transition.fresh_after(state, now));
                line.set_end(slot, end);
                return result;
            }
            drop(line);
            operate_on_all(places, due, operation)
        }
        Some(Store::Words(words, _)) => {
            let _lock = words.lock(words.lock_of(place.hash));
            let mut lines = Lines::new();
            let mut held = Held::of(place, &mut lines);
            held.now = place.now();
            held.find_room(&mut lines);
            held.advance(due, &mut lines);
            let limit = place.limit(0, held.at, held.full);
            let result = operation(&mut KeyStates::new(&mut [&mut held.state], &mut [limit]));
            held.put(&mut lines);
            result
        }
        None => operate_on_all(places, due, operation),
    }
}

#[inline(never)]
fn operate_on_many<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    mut operation: impl FnMut(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let at_once = || operate_without_locks(places, &mut operation);
    match due.is_none().then(at_once).flatten() {
        Some(result) => result,
        None => operate_on_all(places, due, operation),
    }
}

/// A debt by GCRA that was read without a lock.
struct Read<'a> {
    words: &'a Words,
    slot: OwnSlot<'a>,
    before: Tat,
    state: State,
}

/// Operates on copies of debts by GCRA in the common case: all keys have their slots, and no other thread changes them
/// meanwhile. Returns `None` in any other case, and if the operation lowers a debt. Nothing is charged then.
fn operate_without_locks<R>(
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
        reads.push(Read { words, slot, before, state: State::Gcra(before) });
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
        read.words.lower(place.hash, charged, now);
    }
    None
}

impl Read<'_> {
    fn after(&self) -> Tat {
        if let State::Gcra(tat) = self.state { tat } else { self.before }
    }
}

/// The two times that the clock of a list shows, each of which is read once.
#[derive(Default)]
struct Times {
    monotonic: Option<Timestamp>,
    unix: Option<Timestamp>,
}

impl Times {
    fn of(&mut self, place: &Place<'_>) -> Timestamp {
        let Self { monotonic, unix } = self;
        let time = if place.tables.reads_unix_time() { unix } else { monotonic };
        *time.get_or_insert_with(|| place.now())
    }
}

/// Operates on states that are all held.
#[inline(never)]
fn operate_on_all<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    mut operation: impl FnMut(&mut KeyStates<'_, '_>) -> R,
) -> R {
    let mut locks = SmallVec::<[(LimiterId, usize, &Words); 4]>::new();
    let mut indices = SmallVec::<[(LimiterId, usize, &Table); 8]>::new();
    for Place { tables, transition, hash, .. } in places {
        match tables.store(transition) {
            Some(Store::Words(words, _)) => locks.push((tables.id, words.lock_of(*hash), words)),
            Some(Store::Table(table)) => {
                let [one, other] = table.lines_of(*hash);
                indices.push((tables.id, one, table));
                indices.push((tables.id, other, table));
            }
            None => {}
        }
    }
    locks.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    locks.dedup_by_key(|(id, index, _)| (*id, *index));
    indices.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    indices.dedup_by_key(|(id, index, _)| (*id, *index));
    let mut guards = SmallVec::<[MutexGuard<'_, ()>; 4]>::new();
    for (_, index, words) in locks {
        guards.push(words.lock(index));
    }
    let mut lines = Lines::new();
    for (id, index, table) in indices {
        lines.push((id, index, table.lock(index)));
    }

    let mut held = SmallVec::<[Held<'_>; 4]>::new();
    let mut limits = SmallVec::<[LimitState<'_>; 4]>::new();
    for place in places {
        let known = held.iter().position(|it| it.place.has_state_of(place));
        let index = known.unwrap_or(held.len());
        limits.push(place.limit(index, Timestamp::ZERO, None));
        if known.is_none() {
            held.push(Held::of(place, &mut lines));
        }
    }
    let mut times = Times::default();
    for it in &mut held {
        it.now = times.of(it.place);
        it.find_room(&mut lines);
        it.advance(due, &mut lines);
    }
    for (limit, place) in limits.iter_mut().zip(places) {
        if let Some(it) = held.get(limit.index) {
            (limit.now, limit.full) = (it.at, it.full.filter(|_| !place.only_asks));
        }
    }
    let mut states = SmallVec::<[&mut State; 4]>::new();
    for it in &mut held {
        states.push(&mut it.state);
    }
    let result = operation(&mut KeyStates::new(&mut states, &mut limits));
    drop((states, limits));
    for it in held {
        it.put(&mut lines);
    }
    result
}

impl Place<'_> {
    fn has_state_of(&self, other: &Self) -> bool {
        (self.tables.id, self.hash) == (other.tables.id, other.hash)
    }

    fn now(&self) -> Timestamp {
        self.tables.now(self.clock)
    }

    #[inline]
    fn limit(&self, index: usize, now: Timestamp, full: Option<Full>) -> LimitState<'_> {
        let full = full.filter(|_| !self.only_asks);
        LimitState { transition: self.transition, index, now, full, charge: None }
    }

    /// Advances a state to the present, or to the moment when a waiter was `due` if the state is possible then. Returns
    /// that moment.
    fn advance(&self, state: &mut State, now: Timestamp, due: Option<Timestamp>) -> Timestamp {
        let at = due.filter(|due| self.transition.is_possible(state, *due)).unwrap_or(now);
        if self.transition.advance(state, at) {
            self.tables.epoch.begin();
        }
        at
    }
}

impl<'a> Held<'a> {
    /// Holds the slot of a key if it has one.
    fn of(place: &'a Place<'a>, lines: &mut Lines<'_>) -> Self {
        let (tables, hash) = (place.tables, place.hash);
        let (slot, state) = match tables.store(place.transition) {
            Some(Store::Words(words, _)) => match words.hold(hash) {
                Some(word) => {
                    let tat = word.tat();
                    (Slot::Word(word), State::Gcra(tat))
                }
                None => (Slot::None, State::Fresh),
            },
            Some(Store::Table(table)) => {
                let own = lines_of(table, place, lines);
                let take = |index: usize| Some((index, lines.get_mut(index)?.2.take(hash)?));
                let taken = own.into_iter().find_map(take);
                taken.map_or((Slot::None, State::Fresh), |(index, (taken, state))| {
                    (Slot::Line(index, taken), state)
                })
            }
            None => (Slot::None, State::Fresh),
        };
        let is_known = !matches!(slot, Slot::None);
        let (now, at) = (Timestamp::ZERO, Timestamp::ZERO);
        Self { place, slot, state, is_known, now, at, full: None, counted: 0 }
    }

    /// Holds a free slot if the key has none.
    fn find_room(&mut self, lines: &mut Lines<'_>) {
        let Self { place: Place { tables, hash, transition, .. }, now, .. } = *self;
        if self.is_known {
            return;
        }
        let wait = match tables.store(transition) {
            Some(Store::Words(words, _)) => {
                if let Some(word) = words.hold_free(*hash, now) {
                    self.slot = Slot::Word(word);
                    return;
                }
                if words.repair(*hash, now) {
                    tables.epoch.begin();
                }
                words.free_after(*hash, now)
            }
            Some(Store::Table(table)) => {
                let own = lines_of(table, self.place, lines);
                let take = |index: usize| Some((index, lines.get_mut(index)?.2.take_free(now)?));
                if let Some((index, taken)) = own.into_iter().find_map(take) {
                    self.slot = Slot::Line(index, taken);
                    return;
                }
                // Keys of impossible states may never come back to have them repaired.
                let latest = now.saturating_add(table.reach());
                let own = own.into_iter().filter_map(|index| {
                    let line = &mut lines.get_mut(index)?.2;
                    line.free_by(latest);
                    Some(line.free_at())
                });
                own.min().unwrap_or(now).saturating_since(now)
            }
            None => Duration::ZERO,
        };
        let admits = tables.room.on_full == OnFull::Admit;
        self.full = Some(Full { wait, admits });
    }
}

impl Held<'_> {
    /// Advances the state, and lets its log grow by as many entries as there are.
    fn advance(&mut self, due: Option<Timestamp>, lines: &mut Lines<'_>) {
        let Self { place, now, .. } = *self;
        let Some(Store::Table(table)) = place.tables.store(place.transition) else {
            self.at = place.advance(&mut self.state, now, due);
            return;
        };
        self.counted = table.entries(&self.state);
        self.at = place.advance(&mut self.state, now, due);
        let own = lines.iter_mut().filter(|(id, ..)| *id == place.tables.id);
        table.make_spare(&self.state, own.map(|(.., line)| &mut **line), now);
        self.counted += table.reserve(&mut self.state);
    }

    /// Puts the state into its slot. A refusal or a peek takes no slot.
    fn put(self, lines: &mut Lines<'_>) {
        let Self { place, slot, state, is_known, now, counted, .. } = self;
        match (slot, place.tables.store(place.transition)) {
            (Slot::Word(word), _) => {
                let tat = if let State::Gcra(tat) = state { tat } else { Tat::default() };
                word.release(place.hash, tat, now);
            }
            (Slot::Line(index, taken), Some(Store::Table(table))) => {
                table.settle(counted, &state);
                let end = now.saturating_add(place.transition.fresh_after(&state, now));
                let is_kept = is_known || end > now;
                if let Some((.., line)) = lines.get_mut(index) {
                    let former = line.put(taken, is_kept.then_some((place.hash, end)), state);
                    table.forget(&former);
                }
            }
            _ => {}
        }
    }
}

/// Returns which of the locked lines are those of a place, the first one first.
fn lines_of(table: &Table, place: &Place<'_>, lines: &Lines<'_>) -> [usize; 2] {
    let is = |line| {
        move |(id, index, _): &(LimiterId, usize, _)| (*id, *index) == (place.tables.id, line)
    };
    table.lines_of(place.hash).map(|line| lines.iter().position(is(line)).unwrap_or(usize::MAX))
}
