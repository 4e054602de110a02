//! The waiters for one key, and when they are due.
//!
//! A copy of an exact log merges the newest entries into one, so that its size depends on what is asked for and not on
//! the log. It covers a number of permits: as long as no more are charged in it or asked for behind them, it gives the
//! same waits as a whole copy. It always covers all waiters. A request that it does not cover makes a new copy.

use core::task::Waker;

use crate::{
    Cost, Timestamp,
    algorithms::{AnyTransition, State, Transition},
    memory::states::States,
};

/// A place in a queue, earlier ones first.
pub(crate) type Ticket = u64;

pub(super) struct Waiter {
    pub(super) states: States,
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

/// A copy of the state after some of the waiters were charged, each at the moment at which it is due.
pub(super) struct Forecast {
    state: State,
    /// How many permits may be charged or asked for since the copy, under one policy: that of all waiters. If the
    /// copy is whole, `u64::MAX`, under any policies.
    covered: u64,
    /// How many permits were charged since the copy.
    charged: u64,
    /// The moment of the last of these charges, or of the copy.
    pub(super) last: Timestamp,
    /// The first waiter that is not charged. No later one is.
    pub(super) next: Ticket,
}

/// The fewest permits that a copy covers, for each of which it may have an entry.
const FEWEST_COVERED: u64 = 16;

impl Forecast {
    /// Copies the state for the waiters from `next` on and a request behind them, which ask for `asked` permits
    /// together. It covers twice as many, so that a growing queue seldom makes another. If they are under several
    /// policies, `asked` is `None`, and the copy is whole.
    pub(super) fn new(
        transition: &AnyTransition,
        state: &State,
        asked: Option<u64>,
        last: Timestamp,
        next: Ticket,
    ) -> Self {
        let asked = asked.filter(|_| transition.has_log()).unwrap_or(u64::MAX);
        let covered = asked.saturating_mul(2).max(FEWEST_COVERED);
        Self { state: transition.copy_for(state, covered), covered, charged: 0, last, next }
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.covered == u64::MAX
    }

    /// Returns whether the copy is exact for so many permits under its policy, beside those that were charged.
    pub(super) const fn covers(&self, asked: u64) -> bool {
        self.charged.saturating_add(asked) <= self.covered
    }

    /// Returns when a cost fits behind the waiters that are charged, from a moment on.
    pub(super) fn due(
        &mut self,
        transition: &AnyTransition,
        from: Timestamp,
        cost: Cost,
    ) -> Option<Timestamp> {
        self.last = self.last.max(from);
        transition.advance(&mut self.state, self.last);
        let wait = transition.wait(&self.state, self.last, cost);
        wait.map(|wait| self.last.saturating_add(wait))
    }

    /// Computes when a waiter is due of which all before are charged.
    pub(super) fn place(&mut self, waiter: &mut Waiter) {
        let due = self.due(waiter.states.transition(), self.last, waiter.cost);
        // A cost that does not fit any more is refused when it is the first.
        waiter.due = due.unwrap_or(self.last);
    }

    /// Charges a waiter at the moment at which it is due, unless it was charged before.
    pub(super) fn charge(&mut self, ticket: Ticket, waiter: &Waiter) {
        if ticket >= self.next {
            waiter.states.transition().charge(&mut self.state, self.last, waiter.due, waiter.cost);
            (self.last, self.next) = (waiter.due, ticket + 1);
            self.charged = self.charged.saturating_add(waiter.cost.get());
        }
    }
}
