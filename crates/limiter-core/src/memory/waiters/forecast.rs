//! The waiters for one key, and when they are due.
//!
//! A copy of an exact log merges the newest entries into one, so that its size depends on the permits asked for and not on
//! the log. It covers a number of permits: as long as no more are charged in it or asked for behind them, it gives the
//! same waits as a whole copy. It always covers all waiters. A request that it does not cover makes a new copy.

use core::{task::Waker, time::Duration};

use smallvec::SmallVec;

use crate::{
    Cost, Timestamp,
    algorithms::State,
    memory::{
        held::operate,
        tables::{Limits, Tables},
    },
};

/// A place in a queue, earlier ones first.
pub(crate) type Ticket = u64;

pub(super) struct Waiter {
    pub(super) limits: Limits,
    pub(super) cost: Cost,
    /// The last moment at which the permits are of use, by [`Clock::now`](crate::Clock::now).
    pub(super) deadline: Option<Timestamp>,
    pub(super) waker: Waker,
    /// Exact for the first waiter and for those that are charged in the forecast. The others are due
    /// then or earlier, unless something was charged that was not foreseen.
    pub(super) due: Timestamp,
    /// Until when it sleeps.
    pub(super) sleeps_until: Timestamp,
}

/// Copies of the states after some of the waiters were charged, each at the moment at which it is due.
pub(super) struct Forecast {
    /// Of each limit of the waiters' policies, by its salt.
    states: SmallVec<[(u64, State); 1]>,
    /// How many permits may be charged or asked for since the copy, under one policy: that of all waiters. If the
    /// copy is whole, `u64::MAX`, under the policies that it was made for.
    covered: u64,
    /// How many permits were charged since the copy.
    charged: u64,
    /// The moment of the last of these charges, or of the copy.
    pub(super) last: Timestamp,
    /// The first waiter that is not charged. No later one is.
    pub(super) next: Ticket,
}

/// The fewest permits that a copy covers. It may have an entry for each of them.
const FEWEST_COVERED: u64 = 16;

impl Forecast {
    /// Copies the states of these policies for the waiters from `next` on and a request behind them, which ask for
    /// `asked` permits together. It covers twice as many, so that a growing queue seldom makes another. If they are
    /// under several policies, `asked` is `None`, and the copy is whole.
    pub(super) fn new<'a>(
        policies: impl IntoIterator<Item = &'a Limits>,
        key: u64,
        tables: &Tables,
        asked: Option<u64>,
        next: Ticket,
    ) -> Self {
        let mut forecast = Self {
            states: SmallVec::new(),
            covered: u64::MAX,
            charged: 0,
            last: Timestamp::ZERO,
            next,
        };
        for policy in policies {
            forecast.add(policy, key, tables, asked);
        }
        forecast
    }

    /// Copies the states of a policy that are not copied yet.
    fn add(&mut self, policy: &Limits, key: u64, tables: &Tables, asked: Option<u64>) {
        for (place, (_, salt)) in tables.places(policy, key).zip(&policy.salted) {
            if self.states.iter().any(|(other, _)| other == salt) {
                continue;
            }
            let covered =
                asked.map_or(u64::MAX, |asked| asked.saturating_mul(2).max(FEWEST_COVERED));
            // A key without a slot has to wait for one.
            let (at, copy) = operate(&[place], None, |states| states.copy_for(covered));
            self.last = self.last.max(at);
            self.states.push((*salt, copy));
            self.covered = self.covered.min(covered);
        }
    }

    /// Returns whether the copy is exact for so many permits under a policy, beside those that were charged. `is_same` if
    /// all waiters are under that policy.
    pub(super) fn covers(&self, policy: &Limits, asked: u64, is_same: bool) -> bool {
        let has = |salt| self.states.iter().any(|(other, _)| *other == salt);
        let is_whole = self.covered == u64::MAX;
        policy.salted.iter().all(|(_, salt)| has(*salt))
            && (is_whole || is_same && self.charged.saturating_add(asked) <= self.covered)
    }

    fn state(&mut self, salt: u64) -> Option<&mut State> {
        self.states.iter_mut().find_map(|(other, state)| (*other == salt).then_some(state))
    }

    /// Returns how long a cost waits from a moment on.
    fn wait(&mut self, policy: &Limits, at: Timestamp, cost: Cost) -> Option<Duration> {
        policy.salted.iter().try_fold(Duration::ZERO, |longest, (transition, salt)| {
            Some(longest.max(transition.wait(self.state(*salt)?, at, cost)?))
        })
    }

    /// Returns when a cost fits behind the waiters that are charged, from a moment on.
    pub(super) fn due(
        &mut self,
        policy: &Limits,
        from: Timestamp,
        cost: Cost,
    ) -> Option<Timestamp> {
        self.last = self.last.max(from);
        let last = self.last;
        for (transition, salt) in &policy.salted {
            transition.advance(self.state(*salt)?, last);
        }
        let due = self.last.saturating_add(self.wait(policy, self.last, cost)?);
        if policy.salted.len() == 1 {
            return Some(due);
        }
        // At most one limit is paced, and its slots may miss the longest wait.
        Some(due.saturating_add(self.wait(policy, due, cost)?))
    }

    /// Computes when a waiter is due. All before it are charged.
    pub(super) fn place(&mut self, waiter: &mut Waiter) {
        let due = self.due(&waiter.limits, self.last, waiter.cost);
        // A cost that does not fit any more is refused when it is the first.
        waiter.due = due.unwrap_or(self.last);
    }

    /// Charges a waiter at the moment at which it is due, unless it was charged before.
    pub(super) fn charge(&mut self, ticket: Ticket, waiter: &Waiter) {
        if ticket >= self.next {
            let last = self.last;
            for (transition, salt) in &waiter.limits.salted {
                let state = self.state(*salt);
                state.map(|state| transition.charge(state, last, waiter.due, waiter.cost));
            }
            (self.last, self.next) = (waiter.due, ticket + 1);
            self.charged = self.charged.saturating_add(waiter.cost.get());
        }
    }
}
