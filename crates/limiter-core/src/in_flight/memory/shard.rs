//! A part of the table: the counts of its keys and their waiters, under one lock.

use core::task::Waker;
use std::{
    collections::{HashMap, hash_map},
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use super::{
    counts::Counts,
    queue::{CallLimit, Grant, Queue, Ticket},
};
use crate::{
    Entry, InFlightPermit, Occupancy, Source,
    in_flight::permit::Owner,
    sync::{Mutex, lock, wake_all},
};

/// A part of a limiter's keys. A permit refers to its shard rather than to the limiter, so that threads on different
/// keys share no reference count.
pub(crate) struct Shard {
    counts: Arc<Counts>,
    state: Mutex<State>,
}

/// Invariants: no count is zero, and every waiter's limit is at most what its key holds. So a call that finds room
/// passes no waiter that could enter instead, and needs no look at the queue.
struct State {
    /// The limiter's own limit. Each shard has a copy, so that no call finds a higher one before the waiters are
    /// served.
    limit: u32,
    counts: HashMap<u64, Count, Rotate>,
    /// For how many keys this shard has places of the limiter's: for those that hold permits, and a spare one.
    places: usize,
    queues: HashMap<u64, Queue, Rotate>,
    /// The sum of all counts.
    held: u64,
    /// That of new counts. A reset begins the next one.
    generation: u64,
    last_ticket: Ticket,
}

/// How many permits of a key are held.
struct Count {
    held: u32,
    generation: u64,
}

/// What a call found: a permit, or how many are held.
pub(crate) type Taken = Result<Grant, Occupancy>;

/// Whether a call has ended, or has a place in the queue.
pub(crate) enum Joined {
    Done(Taken),
    Waiting(Ticket),
}

impl Shard {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        let state = Mutex::new(State::new(counts.limit()));
        Self { counts, state }
    }

    /// Takes a permit if fewer than the limit are held.
    pub(crate) fn take(&self, hash: u64, limit: CallLimit) -> Taken {
        lock(&self.state).take(&self.counts, hash, limit)
    }

    /// Takes a permit, or joins the queue if there may be room later.
    pub(crate) fn take_or_join(&self, hash: u64, limit: CallLimit, waker: &Waker) -> Joined {
        let mut state = lock(&self.state);
        match state.take(&self.counts, hash, limit) {
            Err(full) if may_wait(full) && self.counts.waiting.add() => {
                Joined::Waiting(state.join(hash, limit, waker.clone()))
            }
            taken => Joined::Done(taken),
        }
    }

    /// Returns the permit that was taken for a waiter, or sets the waker to call once it is.
    pub(crate) fn poll(
        &self,
        hash: u64,
        ticket: Ticket,
        limit: CallLimit,
        waker: &Waker,
    ) -> Option<Grant> {
        let mut state = lock(&self.state);
        let grant = state.take_grant(hash, ticket);
        let retired = match (&grant, state.queues.get_mut(&hash)) {
            (None, Some(queue)) => queue.set_waker(ticket, limit, waker),
            _ => None,
        };
        drop(state);
        drop(retired);
        grant
    }

    /// Removes a waiter from the queue. Returns the permit if one was taken for it before.
    pub(crate) fn leave(&self, hash: u64, ticket: Ticket, limit: CallLimit) -> Taken {
        let mut state = lock(&self.state);
        if let Some(grant) = state.take_grant(hash, ticket) {
            return Ok(grant);
        }
        let retired = state.leave(hash, ticket, limit);
        if retired.is_some() {
            self.counts.waiting.subtract();
        }
        let occupancy = state.peek(&self.counts, hash, limit);
        drop(state);
        drop(retired);
        Err(occupancy)
    }

    /// Forgets the permits of a key, so that giving them back changes nothing.
    pub(crate) fn reset(&self, hash: u64) {
        let wakers = lock(&self.state).reset(&self.counts, hash);
        wake_all(wakers);
    }

    /// Reads the limiter's own limit anew, and serves waiters. Returns the wakers to call once no lock is held.
    pub(crate) fn update_limit(&self) -> Vec<Waker> {
        let mut state = lock(&self.state);
        // The last one that was set, also if two threads set it at once.
        state.limit = self.counts.limit();
        state.serve_all(&self.counts)
    }

    /// Returns how many permits are held, and takes none.
    pub(crate) fn peek(&self, hash: u64, limit: CallLimit) -> Occupancy {
        lock(&self.state).peek(&self.counts, hash, limit)
    }

    /// Returns how many permits are held, and by how many keys.
    pub(crate) fn held(&self) -> (u64, usize) {
        let state = lock(&self.state);
        (state.held, state.counts.len())
    }

    /// Returns the answer to a call.
    pub(crate) fn entry(self: &Arc<Self>, hash: u64, taken: Taken) -> Entry {
        match taken {
            Ok(Grant { generation, occupancy }) => {
                let owner: Arc<Self> = Arc::clone(self);
                Entry::admitted(InFlightPermit::counted(owner, hash, generation), occupancy)
            }
            Err(occupancy) => {
                if occupancy.source() == Source::FullTable {
                    self.counts.count_full();
                }
                Entry::refused(occupancy)
            }
        }
    }
}

/// Returns whether a call that was refused may enter once permits are given back.
fn may_wait(refused: Occupancy) -> bool {
    refused.limit() > 0 && refused.source() == Source::State
}

impl Owner for Shard {
    /// Gives a permit to a waiter if there is one that may have it.
    fn give_back(&self, hash: u64, generation: u64) {
        let wakers = lock(&self.state).give_back(&self.counts, hash, generation);
        if !wakers.is_empty() {
            wake_all(wakers);
        }
    }
}

impl State {
    fn new(limit: u32) -> Self {
        Self {
            limit,
            counts: HashMap::default(),
            places: 0,
            queues: HashMap::default(),
            held: 0,
            generation: 0,
            last_ticket: 0,
        }
    }

    fn take(&mut self, counts: &Counts, hash: u64, limit: CallLimit) -> Taken {
        let limit = limit.unwrap_or(self.limit);
        let keys = self.counts.len();
        let count = match self.counts.entry(hash) {
            hash_map::Entry::Occupied(count) => count.into_mut(),
            hash_map::Entry::Vacant(_) if limit == 0 => return Err(Occupancy::new(0, 0)),
            hash_map::Entry::Vacant(place) => {
                if keys == self.places {
                    if !counts.keys.add() {
                        return Err(Occupancy::new(0, limit).with_source(Source::FullTable));
                    }
                    self.places += 1;
                }
                place.insert(Count { held: 0, generation: self.generation })
            }
        };
        if count.held >= limit {
            return Err(Occupancy::new(count.held, limit));
        }
        self.held += 1;
        Ok(count.take(limit))
    }

    fn peek(&self, counts: &Counts, hash: u64, limit: CallLimit) -> Occupancy {
        let limit = limit.unwrap_or(self.limit);
        match self.counts.get(&hash) {
            Some(count) => Occupancy::new(count.held, limit),
            None => {
                let is_full = self.counts.len() == self.places && counts.keys.is_full();
                let source = if is_full && limit > 0 { Source::FullTable } else { Source::State };
                Occupancy::new(0, limit).with_source(source)
            }
        }
    }

    fn join(&mut self, hash: u64, limit: CallLimit, waker: Waker) -> Ticket {
        self.last_ticket += 1;
        self.queues.entry(hash).or_default().push(self.last_ticket, limit, waker);
        self.last_ticket
    }

    fn take_grant(&mut self, hash: u64, ticket: Ticket) -> Option<Grant> {
        let queue = self.queues.get_mut(&hash)?;
        let grant = queue.take_grant(ticket);
        self.remove_queue_if_empty(hash);
        grant
    }

    fn leave(&mut self, hash: u64, ticket: Ticket, limit: CallLimit) -> Option<Waker> {
        let waker = self.queues.get_mut(&hash)?.remove(ticket, limit);
        self.remove_queue_if_empty(hash);
        waker
    }

    fn remove_queue_if_empty(&mut self, hash: u64) {
        if self.queues.get(&hash).is_some_and(Queue::is_empty) {
            self.queues.remove(&hash);
            shrink(&mut self.queues);
        }
    }

    /// Returns the wakers to call once no lock is held, as [`serve`](Self::serve) does.
    fn give_back(&mut self, counts: &Counts, hash: u64, generation: u64) -> Vec<Waker> {
        let hash_map::Entry::Occupied(mut place) = self.counts.entry(hash) else {
            return Vec::new();
        };
        let count = place.get_mut();
        if count.generation != generation {
            // The key was reset since.
            return Vec::new();
        }
        count.held -= 1;
        self.held -= 1;
        if count.held == 0 && self.queues.is_empty() {
            place.remove();
            self.freed(counts);
            return Vec::new();
        }
        self.serve(counts, hash)
    }

    fn reset(&mut self, counts: &Counts, hash: u64) -> Vec<Waker> {
        let Some(count) = self.counts.get_mut(&hash) else {
            return Vec::new();
        };
        self.generation += 1;
        self.held -= u64::from(count.held);
        *count = Count { held: 0, generation: self.generation };
        self.serve(counts, hash)
    }

    fn serve_all(&mut self, counts: &Counts) -> Vec<Waker> {
        let hashes: Vec<_> = self.queues.keys().copied().collect();
        hashes.into_iter().flat_map(|hash| self.serve(counts, hash)).collect()
    }

    /// Takes permits for the waiters of a key that have room by now, in their order. Frees the key's place if no permit
    /// is held after that. Returns the wakers to call once no lock is held.
    fn serve(&mut self, counts: &Counts, hash: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(count) = self.counts.get_mut(&hash) else {
            return wakers;
        };
        if let Some(queue) = self.queues.get_mut(&hash) {
            while let Some((ticket, limit, waker)) = queue.pop(count.held, self.limit) {
                queue.grant(ticket, count.take(limit));
                self.held += 1;
                counts.waiting.subtract();
                wakers.push(waker);
            }
        }
        if count.held == 0 {
            self.counts.remove(&hash);
            self.freed(counts);
        }
        wakers
    }

    /// Frees memory, and gives a place back to the limiter, after a key was removed. A shard keeps a spare place, so
    /// that a key that comes and goes writes nothing that other shards write (`cargo xtask bench in-flight`).
    fn freed(&mut self, counts: &Counts) {
        if self.places - self.counts.len() > counts.spare_places {
            self.places -= 1;
            counts.keys.subtract();
        }
        shrink(&mut self.counts);
    }
}

impl Count {
    /// Takes a permit, of which there must be fewer than the limit.
    fn take(&mut self, limit: u32) -> Grant {
        self.held += 1;
        Grant { generation: self.generation, occupancy: Occupancy::new(self.held, limit) }
    }
}

/// Frees memory once far fewer keys are left than there were.
fn shrink<T>(map: &mut HashMap<u64, T, Rotate>) {
    const SMALLEST: usize = 64;
    if map.capacity() > SMALLEST && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}

/// The hash of a key's hash: its lower half first, because all keys of a shard share the highest bits, which the map
/// would compare.
#[derive(Clone, Default)]
struct Rotate(u64);

impl BuildHasher for Rotate {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Rotate {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.rotate_left(32);
    }

    /// Not called: keys are of the type `u64`.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
