//! The states of a limiter, in two tables, and how large they are.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use smallvec::SmallVec;

use super::{key_hasher::KeyHasher, table::Table, words::Words};
use crate::{
    Clock, Decision, Limit, LimiterId, Policy, Source, Timestamp,
    algorithms::{AnyTransition, Gcra},
    sync::{AtomicU64, Ordering},
};

/// The states of a limiter. Each table is made when a policy needs it.
pub(crate) struct Tables {
    pub(super) id: LimiterId,
    /// The name of the policy that the limiter was built with.
    name: Box<str>,
    pub(super) room: Room,
    /// By which the states are judged. Siblings share it.
    pub(super) clock: Arc<dyn Clock>,
    /// Whether states count in Unix time.
    unix_time: bool,
    /// Debts by GCRA, a slot each.
    pub(super) words: OnceLock<Words>,
    /// States of any other algorithm.
    table: OnceLock<Table>,
    /// The salts of the policies of all handles, under which a key is reset.
    salts: RwLock<Vec<u64>>,
    /// How often an impossible state was replaced by a full debt, which no refund may give back: a charge can be refunded
    /// only in the epoch in which it was made. A replacement in one key's state begins an epoch for all keys, because no
    /// state has room for its own.
    epoch: AtomicU64,
    times_full: AtomicU64,
}

/// How many salts are known. With more, a key is reset under the first ones and under the policy of the handle.
const MOST_SALTS: usize = 1_000;

/// Where a limit's states are.
pub(super) enum Store<'a> {
    Words(&'a Words, &'a Gcra),
    Table(&'a Table),
}

/// How many states a limiter may have, and what happens to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// About how many keys, each with a state for each limit of the first policy.
    pub(crate) keys: usize,
    /// The entries of logs for each key: some of its own, and the others shared by all.
    pub(crate) entries_per_key: usize,
    pub(crate) on_full: OnFull,
    /// How many waiters there may be.
    pub(crate) max_waiting: usize,
}

/// What happens to a new key while the table has no free slot for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It is refused until the first of its slots is free: the default, because no flood of keys gets
    /// anything by it.
    #[default]
    Refuse,
    /// It is admitted and not counted, so its limit does not hold.
    Admit,
}

/// The limits of a policy, as a limiter knows them.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) policy: Policy,
    /// Each limit, and what the hash of a key is combined with: the same for limits of the same identity.
    pub(super) salted: SmallVec<[(AnyTransition, u64); 1]>,
}

impl Limits {
    pub(crate) fn new(policy: &Policy, tables: &Tables, hasher: &KeyHasher) -> Self {
        let identities = policy.identities_in(&tables.name);
        let salts = identities.iter().map(|identity| hasher.salt(identity));
        let salted = policy.transitions().iter().cloned().zip(salts).collect();
        Self { policy: policy.clone(), salted }
    }
}

impl Tables {
    /// Returns the tables of a limiter that is built with this policy.
    pub(crate) fn new(id: LimiterId, policy: &Policy, room: Room, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            name: policy.name().into(),
            room,
            clock,
            unix_time: policy.reads_unix_time(),
            words: OnceLock::new(),
            table: OnceLock::new(),
            salts: RwLock::default(),
            epoch: AtomicU64::new(0),
            times_full: AtomicU64::new(0),
        }
    }

    /// Lets the policy of a handle use the tables, and keys be reset under it.
    pub(crate) fn add(&self, limits: &Limits) {
        let Self { room, words, table, .. } = self;
        let policy = &limits.policy;
        // A key has a state for each limit.
        let states_of = |is_word| {
            let is_word = |it: &&AnyTransition| matches!(it, AnyTransition::Gcra(_)) == is_word;
            room.keys.saturating_mul(policy.transitions().iter().filter(is_word).count())
        };
        for transition in policy.transitions() {
            if let AnyTransition::Gcra(gcra) = transition {
                words.get_or_init(|| Words::new(states_of(true))).add(gcra);
            } else {
                let of_one_key = || policy.limits().iter().map(Limit::most_entries).sum();
                let new = || Table::new(states_of(false), room.entries_per_key, of_one_key());
                table.get_or_init(new).add(transition);
            }
        }
        for (_, salt) in &limits.salted {
            let is_known = |salts: &[u64]| salts.len() >= MOST_SALTS || salts.contains(salt);
            if !is_known(&self.salts.read().unwrap_or_else(PoisonError::into_inner)) {
                let mut salts = self.salts.write().unwrap_or_else(PoisonError::into_inner);
                if !is_known(&salts) {
                    salts.push(*salt);
                }
            }
        }
    }

    /// Returns the table of a limit's states. `None` if no policy with this algorithm was added.
    #[inline]
    pub(super) fn store<'a>(&'a self, transition: &'a AnyTransition) -> Option<Store<'a>> {
        match transition {
            AnyTransition::Gcra(gcra) => self.words.get().map(|words| Store::Words(words, gcra)),
            _ => self.table.get().map(Store::Table),
        }
    }

    /// Returns the present as the states count it.
    #[inline]
    pub(crate) fn now(&self, clock: &(impl Clock + ?Sized)) -> Timestamp {
        if self.unix_time { clock.unix_time() } else { clock.now() }
    }

    pub(super) fn reads_unix_time(&self) -> bool {
        self.unix_time
    }

    /// Returns the present epoch. It is read under the lock of a state or before a state is charged, so that the order of
    /// the states' changes is also that of the epochs.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Begins an epoch, before an impossible state is replaced.
    pub(super) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often there was no state, because a table was full.
    pub(crate) fn times_full(&self) -> u64 {
        self.times_full.load(Ordering::Relaxed)
    }

    /// Counts a decision that had no state.
    #[inline]
    pub(crate) fn count_if_full(&self, decision: &Decision) {
        if decision.source() == Source::FullTable {
            self.times_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes a key fresh under these limits and under those of all handles. No lock of `salts` is held meanwhile.
    pub(crate) fn reset(&self, limits: &Limits, key: u64) {
        let salts = || self.salts.read().unwrap_or_else(PoisonError::into_inner);
        let known = (0..).map_while(|index| salts().get(index).copied());
        let own = limits.salted.iter().map(|(_, salt)| *salt);
        // A state is in one of the tables.
        for salt in known.chain(own.filter(|salt| !salts().contains(salt))) {
            if let Some(words) = self.words.get() {
                words.reset(key ^ salt, || self.now(&*self.clock));
            }
            if let Some(table) = self.table.get() {
                table.reset(key ^ salt);
            }
        }
    }
}
