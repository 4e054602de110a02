//! The states of a limiter, in two tables, and how large they are.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::{epoch::Epoch, full::OnFull, key_hasher::KeyHasher, table::Table, words::Words};
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
    /// Whether states count in Unix time.
    unix_time: bool,
    /// Debts by GCRA, a slot each.
    words: OnceLock<Words>,
    /// States of any other algorithm.
    table: OnceLock<Table>,
    pub(super) epoch: Epoch,
    times_full: AtomicU64,
}

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
    /// The entries of logs for each state, which all share.
    pub(crate) entries_per_key: usize,
    pub(crate) on_full: OnFull,
    /// How many waiters there may be.
    pub(crate) max_waiting: usize,
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

    /// Returns whether all states are debts by GCRA.
    #[inline]
    pub(super) fn are_debts(&self) -> bool {
        self.salted.iter().all(|(transition, _)| matches!(transition, AnyTransition::Gcra(_)))
    }
}

impl Tables {
    pub(crate) fn new(id: LimiterId, policy: &Policy, room: Room) -> Self {
        let (words, table, epoch) = (OnceLock::new(), OnceLock::new(), Epoch::default());
        let (unix_time, times_full) = (policy.reads_unix_time(), AtomicU64::new(0));
        let name = policy.name().into();
        let tables = Self { id, name, room, unix_time, words, table, epoch, times_full };
        tables.add(policy);
        tables
    }

    /// Lets a policy use the tables.
    pub(crate) fn add(&self, policy: &Policy) {
        let Self { room, words, table, .. } = self;
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

    /// Makes the state of a key fresh, by the hash with the salt of an identity, whose states are in one of the tables.
    pub(crate) fn reset(&self, hash: u64, clock: &dyn Clock) {
        if let Some(words) = self.words.get() {
            words.reset(hash, || self.now(clock));
        }
        if let Some(table) = self.table.get() {
            table.reset(hash);
        }
    }
}
