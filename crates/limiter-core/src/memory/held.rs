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
    words::{self, Words},
};
use crate::{
    Clock, LimiterId, Timestamp,
    algorithms::{AnyTransition, Full, KeyStates, LimitState, State, Tat, Transition},
    sync::MutexGuard,
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
pub(crate) fn operate<R>(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R,
) -> R {
    if let [place] = places
        && let Some(Store::Table(table)) = place.tables.store(place.transition)
    {
        // In the common case, nothing has to be moved.
        let [first, _] = table.lines_of(place.hash);
        let mut line = table.lock(first);
        if let Some((slot, state)) = line.state(place.hash)
            && table.has_spare(state)
        {
            let now = place.now();
            let counted = table.entries(state);
            let at = place.advance(state, now, due);
            let counted = counted + table.reserve(state);
            let limit = LimitState { transition: place.transition, index: 0, now: at, full: None };
            let result = operation(&mut KeyStates::new(&mut [&mut *state], &[limit]));
            table.settle(counted, state);
            let end = now.saturating_add(place.transition.fresh_after(state, now));
            line.set_end(slot, end);
            return result;
        }
    }
    let (mut operation, mut result) = (Some(operation), None);
    operate_on_all(places, due, &mut |states| {
        result = operation.take().map(|operation| operation(states));
    });
    #[expect(clippy::expect_used, reason = "it runs once")]
    result.expect("the operation has run")
}

#[inline(never)]
fn operate_on_all(
    places: &[Place<'_>],
    due: Option<Timestamp>,
    operation: &mut dyn FnMut(&mut KeyStates<'_, '_>),
) {
    let mut locks = SmallVec::<[(LimiterId, usize, &Words); 4]>::new();
    let mut indices = SmallVec::<[(LimiterId, usize, &Table); 8]>::new();
    for Place { tables, transition, hash, .. } in places {
        match tables.store(transition) {
            Some(Store::Words(words, _)) => locks.push((tables.id, words.lock_of(*hash), words)),
            Some(Store::Table(table)) => {
                indices.extend(table.lines_of(*hash).map(|index| (tables.id, index, table)));
            }
            None => {}
        }
    }
    locks.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    locks.dedup_by_key(|(id, index, _)| (*id, *index));
    indices.sort_unstable_by_key(|(id, index, _)| (*id, *index));
    indices.dedup_by_key(|(id, index, _)| (*id, *index));
    let locks = locks.into_iter().map(|(_, index, words)| words.lock(index));
    let _locks: SmallVec<[MutexGuard<'_, ()>; 4]> = locks.collect();
    let lines = indices.into_iter().map(|(id, index, table)| (id, index, table.lock(index)));
    let mut lines: Lines<'_> = lines.collect();

    let mut held: SmallVec<[Held<'_>; 4]> = SmallVec::new();
    let mut limits: SmallVec<[LimitState<'_>; 4]> = SmallVec::new();
    for place in places {
        let known = held.iter().position(|it| it.place.has_state_of(place));
        let index = known.unwrap_or(held.len());
        let transition = place.transition;
        limits.push(LimitState { transition, index, now: Timestamp::ZERO, full: None });
        if known.is_none() {
            held.push(Held::of(place, &mut lines));
        }
    }
    // The places of a list share a clock, which shows two times.
    let mut times = [None; 2];
    for it in &mut held {
        let time = &mut times[usize::from(it.place.tables.reads_unix_time())];
        it.now = *time.get_or_insert_with(|| it.place.now());
        it.find_room(&mut lines);
        it.advance(due, &mut lines);
    }
    for (limit, place) in limits.iter_mut().zip(places) {
        if let Some(it) = held.get(limit.index) {
            (limit.now, limit.full) = (it.at, it.full.filter(|_| !place.only_asks));
        }
    }
    let mut states: SmallVec<[&mut State; 4]> = SmallVec::new();
    states.extend(held.iter_mut().map(|it| &mut it.state));
    operation(&mut KeyStates::new(&mut states, &limits));
    drop(states);
    for it in held {
        it.put(&mut lines);
    }
}

impl Place<'_> {
    fn has_state_of(&self, other: &Self) -> bool {
        (self.tables.id, self.hash) == (other.tables.id, other.hash)
    }

    fn now(&self) -> Timestamp {
        self.tables.now(self.clock)
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
