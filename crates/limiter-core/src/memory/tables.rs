//! The tables of a limiter, and how large they are.

use std::sync::OnceLock;

use super::{
    full::{FullTable, OnFull},
    table::Table,
    words::Words,
};
use crate::{
    Limit, Policy,
    algorithms::{AnyTransition, Gcra},
};

/// The tables of a limiter, made when a policy needs them.
pub(super) struct Tables {
    room: Room,
    /// Debts by GCRA, a slot each.
    words: OnceLock<Words>,
    /// States of any other algorithm.
    table: OnceLock<Table>,
    pub(super) full: FullTable,
}

/// Where a limit's states are.
pub(super) enum Store<'a> {
    Words(&'a Words, &'a Gcra),
    Table(&'a Table, &'a AnyTransition),
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

impl Tables {
    pub(super) fn new(room: Room) -> Self {
        let full = FullTable::new(room.on_full);
        Self { room, words: OnceLock::new(), table: OnceLock::new(), full }
    }

    /// Returns the table of the states of a limit, which is made if the limit's policy is the first that needs it.
    #[inline]
    pub(super) fn store<'a>(&'a self, transition: &'a AnyTransition, policy: &Policy) -> Store<'a> {
        let Self { room, words, table, .. } = self;
        // A key has a state for each limit.
        let states_of = |is_word| {
            let is_word = |it: &&AnyTransition| matches!(it, AnyTransition::Gcra(_)) == is_word;
            room.keys.saturating_mul(policy.transitions().iter().filter(is_word).count())
        };
        match transition {
            AnyTransition::Gcra(gcra) => {
                Store::Words(words.get_or_init(|| Words::new(states_of(true))), gcra)
            }
            transition => {
                let of_one_key = || policy.limits().iter().map(Limit::most_entries).sum();
                let new = || Table::new(states_of(false), room.entries_per_key, of_one_key());
                Store::Table(table.get_or_init(new), transition)
            }
        }
    }

    /// Returns the tables that were made.
    pub(super) fn made(&self) -> (Option<&Words>, Option<&Table>) {
        (self.words.get(), self.table.get())
    }
}
