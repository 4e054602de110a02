//! The sorted set of a key, and what the requests do to it.

use std::collections::BTreeMap;

use super::{EXPIRY, LIMIT, Rule, Time};

pub(super) type Id = u64;

pub(super) struct Set {
    rule: Rule,
    deadlines: BTreeMap<Id, Time>,
    /// When the whole key expires.
    expires: Time,
}

/// What a renewal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewed {
    Kept,
    Restored,
    Lost,
}

impl Set {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, deadlines: BTreeMap::new(), expires: Time::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// The server loses the key.
    pub(super) fn clear(&mut self) {
        self.deadlines.clear();
    }

    /// The key expires by the server's clock.
    pub(super) fn expire(&mut self, now: Time) {
        if self.expires <= now {
            self.clear();
        }
    }

    /// `by_the_client` is the time by the clock of the process that asks.
    pub(super) fn acquire(&mut self, id: Id, now: Time, by_the_client: Time) -> bool {
        let time = if self.rule == Rule::ClientClocks { by_the_client } else { now };
        if self.deadlines.contains_key(&id) || !self.has_room(time) {
            return false;
        }
        self.deadlines.insert(id, time + EXPIRY);
        self.expires = now + EXPIRY;
        true
    }

    pub(super) fn renew(&mut self, id: Id, now: Time) -> Renewed {
        let is_member = self.deadlines.contains_key(&id);
        if !is_member && self.rule != Rule::RenewalsAddAlways && !self.has_room(now) {
            return Renewed::Lost;
        }
        if self.rule != Rule::NoExpiryByRenewals {
            self.expires = now + EXPIRY;
        } else if self.deadlines.is_empty() {
            // A key that is made anew has none.
            self.expires = Time::MAX;
        }
        self.deadlines.insert(id, now + EXPIRY);
        if is_member { Renewed::Kept } else { Renewed::Restored }
    }

    pub(super) fn release(&mut self, id: Id) {
        self.deadlines.remove(&id);
    }

    /// Returns whether an id can be added, after those that have expired were removed if there are too many.
    fn has_room(&mut self, time: Time) -> bool {
        if self.deadlines.len() >= LIMIT {
            self.deadlines.retain(|_, deadline| *deadline > time);
        }
        self.deadlines.len() < LIMIT
    }
}
