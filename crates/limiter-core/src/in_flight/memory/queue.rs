//! The waiters of a shard's keys.
//!
//! Waiters for a rate have another queue, because each of them is due at a moment that is computed in advance. Nobody
//! knows when a permit in flight is given back.

use core::task::Waker;
use std::collections::BTreeMap;

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

/// The waiters of all keys.
#[derive(Default)]
pub(super) struct Queue {
    /// A key has a lane for each limit, because waiters under a higher one need not wait behind those under a lower
    /// one. No lane is empty.
    lanes: BTreeMap<Call, BTreeMap<Ticket, Waker>>,
    last_ticket: Ticket,
}

impl Queue {
    /// Returns whether no key has waiters.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns the hashes of the keys that have waiters.
    pub(super) fn hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<_> = self.lanes.keys().map(|call| call.hash).collect();
        hashes.dedup();
        hashes
    }

    /// Adds a waiter behind all others.
    pub(super) fn join(&mut self, call: Call, waker: Waker) -> Ticket {
        self.last_ticket += 1;
        self.set_waker(call, self.last_ticket, waker);
        self.last_ticket
    }

    /// Sets the waker of a waiter. Returns the former one.
    pub(super) fn set_waker(&mut self, call: Call, ticket: Ticket, waker: Waker) -> Option<Waker> {
        self.lanes.entry(call).or_default().insert(ticket, waker)
    }

    /// Removes a waiter. Returns its waker.
    pub(super) fn remove(&mut self, call: Call, ticket: Ticket) -> Option<Waker> {
        let lane = self.lanes.get_mut(&call)?;
        let waker = lane.remove(&ticket);
        if lane.is_empty() {
            self.lanes.remove(&call);
        }
        waker
    }

    /// Removes the first waiter of a key whose limit is above `held`. Returns its ticket, its limit and its waker.
    pub(super) fn pop(&mut self, hash: u64, held: u32, own: u32) -> Option<(Ticket, u32, Waker)> {
        let lanes = self.lanes.range(Call { hash, limit: None }..);
        let lanes = lanes.take_while(|(call, _)| call.hash == hash);
        let open = lanes.filter(|(call, _)| held < call.limit.unwrap_or(own));
        let heads = open.filter_map(|(call, lane)| Some((*lane.first_key_value()?.0, *call)));
        let (ticket, call) = heads.min()?;
        let waker = self.remove(call, ticket)?;
        Some((ticket, call.limit.unwrap_or(own), waker))
    }
}
