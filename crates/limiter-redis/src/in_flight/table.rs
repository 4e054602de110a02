//! The permits that this process holds, and which of them are renewed when.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::Timestamp;

use super::permit_state::{Expiry, PermitState};

pub(crate) struct Table {
    inner: Mutex<Inner>,
    expiry: Expiry,
}

struct Inner {
    /// By their numbers, those that the store may count.
    permits: BTreeMap<u64, Entry>,
    /// How many permits of a key callers hold, those included that were lost or that the store does not count.
    of_keys: HashMap<Bytes, u32, SeedableRandomState>,
    /// Whether a task renews permits.
    is_watched: bool,
}

struct Entry {
    held: Arc<PermitState>,
    /// When the last request was sent that succeeded.
    sent: Timestamp,
    /// When the last request was sent.
    attempted: Timestamp,
    stage: Stage,
    /// Whether it is given back as soon as its renewal has ended.
    is_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// A renewal is outstanding.
    Renewing,
    /// It waits for its renewal, because others are outstanding or one has failed.
    Waiting,
}

/// What follows from the time, or from a renewal.
#[derive(Default)]
pub(crate) struct Changes {
    /// Permits to renew.
    pub(crate) due: Vec<Arc<PermitState>>,
    /// Permits to give back.
    pub(crate) leaves: Vec<Leave>,
    /// Permits that were lost just now.
    pub(crate) lost: Vec<Arc<PermitState>>,
    pub(crate) restored: u64,
}

/// A permit to give back, and until when the store may count it.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub(crate) key: Bytes,
    pub(crate) number: u64,
    pub(crate) until: Timestamp,
    /// Whether it was lost, so that it does not count any more.
    pub(crate) is_lost: bool,
}

/// What became of a permit that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Kept,
    Restored,
    Lost,
}

impl Table {
    pub(crate) fn new(expiry: Expiry, hasher: SeedableRandomState) -> Self {
        let of_keys = HashMap::with_hasher(hasher);
        let inner = Inner { permits: BTreeMap::new(), of_keys, is_watched: false };
        Self { inner: Mutex::new(inner), expiry }
    }

    /// Adds a permit that was taken by a request sent at `sent`. Returns whether a task has to be started that renews.
    pub(crate) fn insert(&self, held: &Arc<PermitState>, sent: Timestamp) -> bool {
        let mut inner = self.lock();
        inner.add(&held.key);
        let entry = Entry {
            held: Arc::clone(held),
            sent,
            attempted: sent,
            stage: Stage::Idle,
            is_left: false,
        };
        inner.permits.insert(held.number, entry);
        !std::mem::replace(&mut inner.is_watched, true)
    }

    /// Adds a permit that the store does not count, if fewer than `limit` are held of its key in this process. Returns
    /// how many are held.
    pub(crate) fn add_local(&self, key: &Bytes, limit: u32) -> Result<u32, u32> {
        let mut inner = self.lock();
        let held = inner.held(key);
        if held >= limit {
            return Err(held);
        }
        inner.add(key);
        Ok(held + 1)
    }

    pub(crate) fn remove_local(&self, key: &[u8]) {
        self.lock().subtract(key);
    }

    /// Returns how many permits of a key are held in this process.
    pub(crate) fn held_of(&self, key: &[u8]) -> u32 {
        self.lock().held(key)
    }

    /// Returns how many permits are held in this process.
    pub(crate) fn held(&self) -> u64 {
        self.lock().of_keys.values().map(|held| u64::from(*held)).sum()
    }

    /// Notes that a caller holds a permit no more. Returns it if it is to be given back now.
    pub(crate) fn left(&self, held: &PermitState) -> Option<Leave> {
        let mut inner = self.lock();
        inner.subtract(&held.key);
        inner.leave(held.number, self.expiry)
    }

    /// Notes that a permit was lost by the clock. Returns it if it is to be given back now.
    pub(crate) fn lost(&self, held: &PermitState) -> Option<Leave> {
        self.lock().leave(held.number, self.expiry)
    }

    /// Returns what follows from the time, and when to call this again, or `None` if no permit is left.
    ///
    /// Permits are renewed once a third of the expiry has passed since their last request that succeeded. Those for which a
    /// sixth has passed are then renewed as well, because they would be too old before the next moment: so moments are
    /// rare, and a permit outlasts an outage of two thirds of the expiry.
    pub(crate) fn advance(&self, now: Timestamp) -> (Changes, Option<Timestamp>) {
        let (mut inner, mut changes) = (self.lock(), Changes::default());
        let over = inner.permits.values().filter(|entry| entry.held.is_over(now) && !entry.is_left);
        let over: Vec<_> = over.map(|entry| Arc::clone(&entry.held)).collect();
        for held in over {
            changes.lost.extend(held.becomes_lost().then(|| Arc::clone(&held)));
            changes.leaves.extend(inner.leave(held.number, self.expiry));
        }
        let period = self.expiry.period();
        let age = |entry: &Entry| now.saturating_since(entry.sent);
        let is_due = inner.permits.values().any(|entry| entry.is_idle() && age(entry) >= period);
        let mut next = (!inner.permits.is_empty()).then(|| now.saturating_add(period));
        for entry in inner.permits.values_mut() {
            if is_due && entry.is_idle() && age(entry) >= period / 2 {
                entry.stage = Stage::Waiting;
                changes.due.push(Arc::clone(&entry.held));
            }
            let then = match entry.stage {
                _ if entry.is_left => continue,
                Stage::Idle => entry.sent.saturating_add(period).min(entry.held.ends()),
                Stage::Waiting | Stage::Renewing => entry.held.ends(),
            };
            next = next.map(|next| next.min(then));
        }
        inner.is_watched = next.is_some();
        drop(inner);
        changes.wake();
        (changes, next)
    }

    /// Notes that the task that renews has ended too early.
    pub(crate) fn is_unwatched(&self) {
        self.lock().is_watched = false;
    }

    /// Begins to renew permits that have waited for it. Returns those that are still to be renewed.
    pub(crate) fn begin(
        &self,
        group: &[Arc<PermitState>],
        now: Timestamp,
    ) -> Vec<Arc<PermitState>> {
        let mut inner = self.lock();
        let mut resumed = Vec::new();
        for held in group {
            if let Some(entry) = inner.permits.get_mut(&held.number)
                && !held.is_over(now)
            {
                (entry.stage, entry.attempted) = (Stage::Renewing, now);
                resumed.push(Arc::clone(held));
            }
        }
        resumed
    }

    /// Notes what became of permits by a renewal that was sent at `sent`, each `None` if that is not known. Those are
    /// `due` again.
    pub(crate) fn settle(
        &self,
        group: &[Arc<PermitState>],
        renewed: impl IntoIterator<Item = Option<Renewed>>,
        sent: Timestamp,
    ) -> Changes {
        let (mut inner, mut changes) = (self.lock(), Changes::default());
        for (held, renewed) in group.iter().zip(renewed) {
            changes.restored += u64::from(renewed == Some(Renewed::Restored));
            if renewed == Some(Renewed::Lost) {
                inner.permits.remove(&held.number);
                changes.lost.extend(held.becomes_lost().then(|| Arc::clone(held)));
                continue;
            }
            let Some(entry) = inner.permits.get_mut(&held.number) else { continue };
            entry.stage = Stage::Idle;
            if renewed.is_some() {
                entry.sent = sent;
                held.extend(self.expiry.ends(sent));
            }
            // By its caller, or by the clock, while the renewal was outstanding.
            if entry.is_left || held.is_lost() {
                changes.leaves.extend(inner.leave(held.number, self.expiry));
            } else if renewed.is_none() {
                entry.stage = Stage::Waiting;
                changes.due.push(Arc::clone(held));
            }
        }
        drop(inner);
        changes.wake();
        changes
    }

    /// Notes that a task that renews permits has ended too early. Returns permits to give back.
    pub(crate) fn abandon(&self, group: &[Arc<PermitState>]) -> Vec<Leave> {
        let mut inner = self.lock();
        let mut leaves = Vec::new();
        for held in group {
            let Some(entry) = inner.permits.get_mut(&held.number) else { continue };
            entry.stage = Stage::Idle;
            if entry.is_left {
                leaves.extend(inner.leave(held.number, self.expiry));
            }
        }
        leaves
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No operation under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changes {
    /// Wakes those that wait for a permit to be lost, which may give it back.
    fn wake(&self) {
        self.lost.iter().for_each(|held| held.wake());
    }
}

impl Inner {
    /// Removes a permit and returns it, unless its renewal is outstanding, which a release follows.
    fn leave(&mut self, number: u64, expiry: Expiry) -> Option<Leave> {
        let entry = self.permits.get_mut(&number)?;
        entry.is_left = true;
        if entry.stage == Stage::Renewing {
            return None;
        }
        let Entry { held, attempted, .. } = self.permits.remove(&number)?;
        let until = expiry.forgotten(attempted);
        Some(Leave { key: held.key.clone(), number, until, is_lost: held.is_lost() })
    }

    fn held(&self, key: &[u8]) -> u32 {
        self.of_keys.get(key).copied().unwrap_or(0)
    }

    fn add(&mut self, key: &Bytes) {
        match self.of_keys.get_mut(key) {
            Some(held) => *held = held.saturating_add(1),
            None => drop(self.of_keys.insert(key.clone(), 1)),
        }
    }

    fn subtract(&mut self, key: &[u8]) {
        if let Some(held) = self.of_keys.get_mut(key) {
            *held -= 1;
            if *held == 0 {
                self.of_keys.remove(key);
            }
        }
    }
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.is_left
    }
}
