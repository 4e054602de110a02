//! What a limiter of requests in flight must do, in a form that is right by inspection: a list of permits and a list of
//! waiters a key.

use std::collections::BTreeMap;

use limiter_core::{Occupancy, Source};

/// The number of a call.
pub(super) type Call = usize;

pub(super) struct Oracle {
    pub(super) limit: u32,
    pub(super) capacity: usize,
    pub(super) max_waiting: usize,
    pub(super) now: u64,
    keys: BTreeMap<u8, Key>,
}

#[derive(Default)]
struct Key {
    /// The calls that hold permits, those of before a reset excluded.
    held: Vec<Call>,
    /// In the order of arrival.
    waiting: Vec<Waiter>,
    /// The answers of waiters that have a permit and were not polled since.
    granted: Vec<(Call, Occupancy)>,
}

impl Key {
    fn count(&self) -> u32 {
        self.held.len().try_into().unwrap()
    }
}

struct Waiter {
    call: Call,
    limit: Option<u32>,
    deadline: Option<u64>,
}

/// What a call gets: `Ok` is a permit, `None` that it waits.
pub(super) type Answer = Option<Result<Occupancy, Occupancy>>;

impl Oracle {
    pub(super) fn new(limit: u32, capacity: usize, max_waiting: usize) -> Self {
        Self { limit, capacity, max_waiting, now: 0, keys: BTreeMap::new() }
    }

    pub(super) fn held(&self, key: u8) -> u32 {
        self.keys.get(&key).map_or(0, Key::count)
    }

    pub(super) fn total(&self) -> u64 {
        self.keys.values().map(|key| key.held.len() as u64).sum()
    }

    pub(super) fn used(&self) -> usize {
        self.keys.values().filter(|key| !key.held.is_empty()).count()
    }

    pub(super) fn waiting(&self) -> usize {
        self.keys.values().map(|key| key.waiting.len()).sum()
    }

    /// Returns whether a waiter has a permit and whether it has a timer, each of which wakes it.
    pub(super) fn wakes(&self, key: u8, call: Call) -> [bool; 2] {
        let mut waiting = self.keys[&key].waiting.iter();
        let is_granted = self.keys[&key].granted.iter().any(|(granted, _)| *granted == call);
        [is_granted, waiting.any(|it| it.call == call && it.deadline.is_some())]
    }

    pub(super) fn peek(&self, key: u8, limit: Option<u32>) -> Occupancy {
        let (held, limit) = (self.held(key), limit.unwrap_or(self.limit));
        let is_full = held == 0 && limit > 0 && self.used() == self.capacity;
        let source = if is_full { Source::FullTable } else { Source::State };
        Occupancy::new(held, limit).with_source(source)
    }

    pub(super) fn enter(
        &mut self,
        call: Call,
        key: u8,
        limit: Option<u32>,
    ) -> Result<Occupancy, Occupancy> {
        let found = self.peek(key, limit);
        if !found.has_room() {
            return Err(found);
        }
        self.keys.entry(key).or_default().held.push(call);
        Ok(Occupancy::new(self.held(key), found.limit()))
    }

    pub(super) fn acquire(
        &mut self,
        call: Call,
        key: u8,
        limit: Option<u32>,
        deadline: Option<u64>,
    ) -> Answer {
        let entered = self.enter(call, key, limit);
        let Err(full) = entered else { return Some(entered) };
        let never = full.limit() == 0 || full.source() == Source::FullTable;
        let is_late = deadline.is_some_and(|deadline| deadline <= self.now);
        if never || is_late || self.waiting() == self.max_waiting {
            return Some(Err(full));
        }
        let waiter = Waiter { call, limit, deadline };
        self.keys.entry(key).or_default().waiting.push(waiter);
        None
    }

    pub(super) fn poll(&mut self, call: Call, key: u8) -> Answer {
        let now = self.now;
        let state = self.keys.get_mut(&key)?;
        if let Some(index) = state.granted.iter().position(|(granted, _)| *granted == call) {
            return Some(Ok(state.granted.remove(index).1));
        }
        let index = state.waiting.iter().position(|waiter| waiter.call == call)?;
        state.waiting[index].deadline.filter(|deadline| *deadline <= now)?;
        let limit = state.waiting.remove(index).limit;
        Some(Err(self.peek(key, limit)))
    }

    /// A waiter is dropped, whether or not its permit was taken.
    pub(super) fn leave(&mut self, call: Call, key: u8) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        state.waiting.retain(|waiter| waiter.call != call);
        state.granted.retain(|(granted, _)| *granted != call);
        self.give_back(call, key);
    }

    pub(super) fn give_back(&mut self, call: Call, key: u8) {
        if let Some(state) = self.keys.get_mut(&key) {
            state.held.retain(|held| *held != call);
        }
        self.serve(key);
    }

    pub(super) fn reset(&mut self, key: u8) {
        if let Some(state) = self.keys.get_mut(&key) {
            state.held.clear();
        }
        self.serve(key);
    }

    pub(super) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        let keys: Vec<_> = self.keys.keys().copied().collect();
        keys.into_iter().for_each(|key| self.serve(key));
    }

    /// Takes permits for waiters in their order, until none of them has room.
    fn serve(&mut self, key: u8) {
        let own = self.limit;
        let Some(state) = self.keys.get_mut(&key) else { return };
        let has_room = |state: &Key, waiter: &Waiter| state.count() < waiter.limit.unwrap_or(own);
        while let Some(index) = state.waiting.iter().position(|waiter| has_room(state, waiter)) {
            let Waiter { call, limit, .. } = state.waiting.remove(index);
            state.held.push(call);
            let occupancy = Occupancy::new(state.count(), limit.unwrap_or(own));
            state.granted.push((call, occupancy));
        }
    }
}
