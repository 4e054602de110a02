//! A part of the table: the counts of its keys and their waiters, under one lock.
//!
//! A state of a rate stays in its slot until time has freed it, so those tables have a fixed size and no entry is ever
//! removed. A count is removed with its last permit, so this table is a map, which takes memory for what is held.

use core::task::Waker;
use std::{
    collections::{BTreeMap, HashMap, hash_map},
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use crate::{
    Entry, InFlightPermit, Occupancy, Source,
    in_flight::permit::Owner,
    sync::{AtomicU32, Bounded, Mutex, MutexGuard, Ordering, lock, wake_all},
};

/// What a call asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// That of the key.
    pub(super) hash: u64,
    /// `None` means the limiter's own limit, whatever it is at the time.
    pub(super) limit: Option<u32>,
}

/// The place of a waiter in its lane. A later arrival in the shard has a higher one.
pub(super) type Ticket = u64;

/// What all shards of a limiter share: its own limit, and the bounds of memory.
pub(super) struct Shared {
    /// Each shard has a copy.
    pub(super) limit: AtomicU32,
    /// The places for keys that the shards have.
    pub(super) keys: Bounded,
    /// How many places without a key a shard keeps.
    pub(super) spare_places: usize,
    pub(super) waiting: Bounded,
}

/// A part of a limiter's keys. A permit refers to its shard rather than to the limiter, so that threads on different
/// keys share no reference count.
pub(super) struct Shard(Mutex<Counts>);

/// How many permits of each key are held, and who waits for them.
///
/// Invariants: no count is zero, and every waiter's limit is at most what its key holds. So a call that finds room
/// passes no waiter that could enter instead, and needs no look at the queue.
pub(super) struct Counts {
    shared: Arc<Shared>,
    /// The limiter's own limit. Each shard has a copy, so that no call finds a higher one before the waiters are
    /// served.
    limit: u32,
    pub(super) by_hash: HashMap<u64, Count, BuildHasherDefault<Rotate>>,
    /// How many places this shard has for keys to come. It keeps one, so that a key that comes and goes writes nothing
    /// that other shards write (`cargo xtask bench memory`).
    spare: usize,
    queue: Queue,
    /// The permits that were taken for waiters since they were last polled.
    granted: BTreeMap<Ticket, Grant>,
    /// The sum of all counts.
    pub(super) held: u64,
    /// How many calls were refused because there was no place for their keys.
    pub(super) times_full: u64,
    /// That of new counts. A reset begins the next one.
    generation: u64,
}

/// How many permits of a key are held.
pub(super) struct Count {
    held: u32,
    generation: u64,
}

/// A permit that was taken.
pub(super) struct Grant {
    /// That of the key's count. After a reset the permit belongs to no count.
    generation: u64,
    /// Includes the permit.
    occupancy: Occupancy,
}

/// What a call found: a permit, or how many are held.
pub(super) type Taken = Result<Grant, Occupancy>;

impl Shard {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(Mutex::new(Counts {
            limit: shared.limit.load(Ordering::Relaxed),
            shared,
            by_hash: HashMap::default(),
            spare: 0,
            queue: Queue::default(),
            granted: BTreeMap::new(),
            held: 0,
            times_full: 0,
            generation: 0,
        }))
    }

    /// Locks the counts, whose methods call and drop no waker.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Counts> {
        lock(&self.0)
    }

    /// Returns the answer to a call, or `None` if it waits, in the queue from now on if it has no ticket yet. Without a
    /// waker, it does not wait any more.
    pub(super) fn poll(
        self: &Arc<Self>,
        call: Call,
        ticket: &mut Option<Ticket>,
        mut waker: Option<Waker>,
    ) -> Option<Entry> {
        let taken = self.lock().poll(call, ticket, &mut waker)?;
        Some(self.entry(call, taken))
    }

    /// Returns the answer to a call.
    pub(super) fn entry(self: &Arc<Self>, call: Call, taken: Taken) -> Entry {
        match taken {
            Ok(Grant { generation, occupancy }) => {
                let owner: Arc<Self> = Arc::clone(self);
                Entry::admitted(InFlightPermit::counted(owner, call.hash, generation), occupancy)
            }
            Err(occupancy) => Entry::refused(occupancy),
        }
    }
}

impl Owner for Shard {
    fn give_back(&self, hash: u64, generation: u64) {
        let wakers = self.lock().give_back(hash, generation);
        if !wakers.is_empty() {
            wake_all(wakers);
        }
    }
}

impl Counts {
    /// Takes a permit if fewer than the limit are held.
    pub(super) fn take(&mut self, call: Call) -> Taken {
        let limit = call.limit.unwrap_or(self.limit);
        let count = match self.by_hash.entry(call.hash) {
            hash_map::Entry::Occupied(count) => count.into_mut(),
            hash_map::Entry::Vacant(_) if limit == 0 => return Err(Occupancy::new(0, 0)),
            hash_map::Entry::Vacant(place) => {
                if self.spare > 0 {
                    self.spare -= 1;
                } else if !self.shared.keys.add() {
                    self.times_full += 1;
                    return Err(Occupancy::new(0, limit).with_source(Source::FullTable));
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

    /// Does what [`Shard::poll`] does. What is in `waker` afterwards is to be dropped once no lock is held.
    fn poll(
        &mut self,
        call: Call,
        ticket: &mut Option<Ticket>,
        waker: &mut Option<Waker>,
    ) -> Option<Taken> {
        let Some(place) = *ticket else {
            let taken = self.take(call);
            if let Err(full) = taken
                && full.limit() > 0
                && full.source() == Source::State
                && let Some(waker) = waker.take_if(|_| self.shared.waiting.add())
            {
                *ticket = Some(self.queue.join(call, waker));
                return None;
            }
            return Some(taken);
        };
        if let Some(grant) = self.granted.remove(&place) {
            *ticket = None;
            return Some(Ok(grant));
        }
        if let Some(other) = waker.take() {
            *waker = self.queue.set_waker(call, place, other);
            return None;
        }
        *ticket = None;
        *waker = self.queue.remove(call, place);
        self.shared.waiting.subtract();
        Some(Err(self.peek(call)))
    }

    /// Returns how many permits are held, and takes none.
    pub(super) fn peek(&self, call: Call) -> Occupancy {
        let limit = call.limit.unwrap_or(self.limit);
        if let Some(count) = self.by_hash.get(&call.hash) {
            return Occupancy::new(count.held, limit);
        }
        let is_full = limit > 0 && self.spare == 0 && self.shared.keys.is_full();
        let source = if is_full { Source::FullTable } else { Source::State };
        Occupancy::new(0, limit).with_source(source)
    }

    /// Gives a permit back, unless the key was reset since. Returns the wakers to call once no lock is held.
    fn give_back(&mut self, hash: u64, generation: u64) -> Vec<Waker> {
        self.change(hash, |count| count.held -= u32::from(count.generation == generation))
    }

    /// Forgets the permits of a key, so that giving them back changes nothing. Returns the wakers to call once no lock
    /// is held.
    pub(super) fn reset(&mut self, hash: u64) -> Vec<Waker> {
        self.generation += 1;
        let generation = self.generation;
        self.change(hash, |count| *count = Count { held: 0, generation })
    }

    /// Reads the limiter's own limit anew, and serves waiters. Returns the wakers to call once no lock is held.
    pub(super) fn update_limit(&mut self) -> Vec<Waker> {
        // The last one that was set, also if two threads set it at once.
        self.limit = self.shared.limit.load(Ordering::Relaxed);
        self.queue.hashes().into_iter().flat_map(|hash| self.change(hash, |_| ())).collect()
    }

    /// Changes the count of a key, and takes permits for the waiters that have room by then, in their order. Frees the
    /// key's place if no permit is held after that. Returns the wakers to call once no lock is held.
    fn change(&mut self, hash: u64, change: impl FnOnce(&mut Count)) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let hash_map::Entry::Occupied(mut place) = self.by_hash.entry(hash) else {
            return wakers;
        };
        let count = place.get_mut();
        let before = count.held;
        change(count);
        // Not asked by `pop`, which is not inlined, because mostly nobody waits.
        while !self.queue.is_empty()
            && let Some((ticket, limit, waker)) = self.queue.pop(hash, count.held, self.limit)
        {
            self.granted.insert(ticket, count.take(limit));
            self.shared.waiting.subtract();
            wakers.push(waker);
        }
        self.held = self.held - u64::from(before) + u64::from(count.held);
        if count.held == 0 {
            place.remove();
            if self.spare < self.shared.spare_places {
                self.spare += 1;
            } else {
                self.shared.keys.subtract();
            }
            self.shrink();
        }
        wakers
    }

    /// Frees memory once far fewer keys are left than there were.
    fn shrink(&mut self) {
        const SMALLEST: usize = 64;
        if self.by_hash.capacity() > SMALLEST && self.by_hash.len() < self.by_hash.capacity() / 8 {
            self.by_hash.shrink_to(2 * self.by_hash.len());
        }
    }
}

impl Count {
    /// Takes a permit. Fewer than the limit must be held.
    fn take(&mut self, limit: u32) -> Grant {
        self.held += 1;
        Grant { generation: self.generation, occupancy: Occupancy::new(self.held, limit) }
    }
}

/// The waiters of all keys.
///
/// Waiters for a rate have another queue, because each of them is due at a moment that is computed in advance. Nobody
/// knows when a permit in flight is given back.
#[derive(Default)]
struct Queue {
    /// A key has a lane for each limit, because waiters under a higher one need not wait behind those under a lower
    /// one. No lane is empty.
    lanes: BTreeMap<Call, BTreeMap<Ticket, Waker>>,
    last_ticket: Ticket,
}

impl Queue {
    /// Returns whether no key has waiters.
    fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns the hashes of the keys that have waiters.
    fn hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<_> = self.lanes.keys().map(|call| call.hash).collect();
        hashes.dedup();
        hashes
    }

    /// Adds a waiter behind all others.
    fn join(&mut self, call: Call, waker: Waker) -> Ticket {
        self.last_ticket += 1;
        self.set_waker(call, self.last_ticket, waker);
        self.last_ticket
    }

    /// Sets the waker of a waiter. Returns the former one.
    fn set_waker(&mut self, call: Call, ticket: Ticket, waker: Waker) -> Option<Waker> {
        self.lanes.entry(call).or_default().insert(ticket, waker)
    }

    /// Removes a waiter. Returns its waker.
    fn remove(&mut self, call: Call, ticket: Ticket) -> Option<Waker> {
        let lane = self.lanes.get_mut(&call)?;
        let waker = lane.remove(&ticket);
        if lane.is_empty() {
            self.lanes.remove(&call);
        }
        waker
    }

    /// Removes the first waiter of a key whose limit is above `held`. Returns its ticket, its limit and its waker.
    fn pop(&mut self, hash: u64, held: u32, own: u32) -> Option<(Ticket, u32, Waker)> {
        let lanes = self.lanes.range(Call { hash, limit: None }..);
        let lanes = lanes.take_while(|(call, _)| call.hash == hash);
        let open = lanes.filter(|(call, _)| held < call.limit.unwrap_or(own));
        let heads = open.filter_map(|(call, lane)| Some((*lane.first_key_value()?.0, *call)));
        let (ticket, call) = heads.min()?;
        let waker = self.remove(call, ticket)?;
        Some((ticket, call.limit.unwrap_or(own), waker))
    }
}

/// The hash of a key's hash: its lower half first, because all keys of a shard share the highest bits, which the map
/// would compare. 2 ns faster than foldhash (`cargo xtask bench memory`).
#[derive(Default)]
pub(super) struct Rotate(u64);

impl Hasher for Rotate {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash.rotate_left(32);
    }

    /// Not called: keys are of the type `u64`.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
}
