//! The waiters of a key, in the order of their arrival.

use core::task::Waker;
use std::{collections::BTreeMap, mem};

use crate::Occupancy;

/// A place in the queues of a shard. An earlier arrival has a lower number.
pub(crate) type Ticket = u64;

/// The limit of a call. `None` means the limiter's own limit, whatever it is at the time.
pub(crate) type CallLimit = Option<u32>;

/// A permit that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// That of the key's count. After a reset the permit belongs to no count.
    pub(crate) generation: u64,
    /// Includes the permit.
    pub(crate) occupancy: Occupancy,
}

/// The waiters of one key, and the permits that were taken for some of them since they were last polled.
#[derive(Default)]
pub(crate) struct Queue {
    /// None is empty, and no two have the same limit.
    lanes: Vec<Lane>,
    granted: BTreeMap<Ticket, Grant>,
}

/// The waiters under one limit. Those under a higher limit need not wait behind them.
struct Lane {
    limit: CallLimit,
    waiting: BTreeMap<Ticket, Waker>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.granted.is_empty()
    }

    /// Adds a waiter behind all others.
    pub(crate) fn push(&mut self, ticket: Ticket, limit: CallLimit, waker: Waker) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.limit == limit) {
            lane.waiting.insert(ticket, waker);
        } else {
            self.lanes.push(Lane { limit, waiting: BTreeMap::from([(ticket, waker)]) });
        }
    }

    /// Removes the first waiter whose limit is above `held`. Returns its ticket, its limit and its waker.
    pub(crate) fn pop(&mut self, held: u32, own_limit: u32) -> Option<(Ticket, u32, Waker)> {
        let first = |lane: &Lane| {
            let limit = lane.limit.unwrap_or(own_limit);
            let ticket = *lane.waiting.first_key_value()?.0;
            (held < limit).then_some((ticket, limit, lane.limit))
        };
        let (ticket, limit, lane) = self.lanes.iter().filter_map(first).min()?;
        let waker = self.remove(ticket, lane)?;
        Some((ticket, limit, waker))
    }

    /// Removes a waiter. Returns its waker, to be dropped once no lock is held, or `None` if a permit was taken for it.
    pub(crate) fn remove(&mut self, ticket: Ticket, limit: CallLimit) -> Option<Waker> {
        let index = self.lanes.iter().position(|lane| lane.limit == limit)?;
        let lane = self.lanes.get_mut(index)?;
        let waker = lane.waiting.remove(&ticket);
        if lane.waiting.is_empty() {
            self.lanes.swap_remove(index);
        }
        waker
    }

    /// Keeps a permit for a waiter that was removed, until it is polled.
    pub(crate) fn grant(&mut self, ticket: Ticket, grant: Grant) {
        self.granted.insert(ticket, grant);
    }

    /// Returns the permit that was taken for a waiter.
    pub(crate) fn take_grant(&mut self, ticket: Ticket) -> Option<Grant> {
        self.granted.remove(&ticket)
    }

    /// Sets the waker of a waiter. Returns the former one, to be dropped once no lock is held.
    pub(crate) fn set_waker(
        &mut self,
        ticket: Ticket,
        limit: CallLimit,
        waker: &Waker,
    ) -> Option<Waker> {
        let lane = self.lanes.iter_mut().find(|lane| lane.limit == limit)?;
        let current = lane.waiting.get_mut(&ticket)?;
        (!current.will_wake(waker)).then(|| mem::replace(current, waker.clone()))
    }
}
