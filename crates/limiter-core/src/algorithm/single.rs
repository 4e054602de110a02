//! One limit by any of the algorithms, chosen at run time.

use core::time::Duration;

use super::{
    Algorithm, Charge, Counts, Entries, FixedWindow, Gcra, Ledger, Mark, SlidingCounter, Tat,
    Window,
};
use crate::{Cost, Error, Kind, Quota, Timestamp, Usage};

/// One limit by any of the algorithms, chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Single {
    /// A debt that drains.
    Gcra(Gcra),
    /// A counter that starts anew with each window.
    FixedWindow(FixedWindow),
    /// Two windows' counters.
    SlidingCounter(SlidingCounter),
    /// Dated entries.
    Ledger(Ledger),
}

/// The state of a [`Single`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// That of any algorithm before it was used.
    #[default]
    Fresh,
    /// That of [`Gcra`].
    Tat(Tat),
    /// That of [`FixedWindow`].
    Window(Window),
    /// That of [`SlidingCounter`].
    Counts(Counts),
    /// That of [`Ledger`].
    Entries(Entries),
}

impl Single {
    /// Returns the algorithm of `kind` for `quota`.
    ///
    /// # Errors
    ///
    /// As the constructor of the algorithm, such as [`Gcra::new`].
    pub fn new(kind: Kind, quota: &Quota) -> Result<Self, Error> {
        Ok(match kind {
            Kind::Gcra | Kind::TokenBucket | Kind::LeakyBucket => Self::Gcra(Gcra::new(quota)?),
            Kind::LeakyQueue { depth } => Self::Gcra(Gcra::leaky_queue(depth, quota)?),
            Kind::FixedWindow(start) => Self::FixedWindow(FixedWindow::new(quota, start)?),
            Kind::SubWindows(slots) => Self::Ledger(Ledger::sub_windows(quota, slots)?),
            Kind::SlidingCounter => Self::SlidingCounter(SlidingCounter::new(quota)?),
            Kind::SlidingLog => Self::Ledger(Ledger::sliding_log(quota)?),
        })
    }
}

/// Calls the algorithm with its state. A state that is fresh, or another algorithm's, which no
/// store hands out, is taken for a fresh one.
macro_rules! with {
    ($single:expr, &mut $state:expr, |$algorithm:ident, $own:ident| $call:expr) => {
        match $single {
            Single::Gcra($algorithm) => with!(@mut $state, Tat, $own, $call),
            Single::FixedWindow($algorithm) => with!(@mut $state, Window, $own, $call),
            Single::SlidingCounter($algorithm) => with!(@mut $state, Counts, $own, $call),
            Single::Ledger($algorithm) => with!(@mut $state, Entries, $own, $call),
        }
    };
    ($single:expr, &$state:expr, |$algorithm:ident, $own:ident| $call:expr) => {
        match $single {
            Single::Gcra($algorithm) => with!(@ref $state, Tat, $own, $call),
            Single::FixedWindow($algorithm) => with!(@ref $state, Window, $own, $call),
            Single::SlidingCounter($algorithm) => with!(@ref $state, Counts, $own, $call),
            Single::Ledger($algorithm) => with!(@ref $state, Entries, $own, $call),
        }
    };
    (@mut $state:expr, $variant:ident, $own:ident, $call:expr) => {
        if let State::$variant($own) = $state {
            $call
        } else {
            let mut fresh = $variant::default();
            let $own = &mut fresh;
            let result = $call;
            *$state = State::$variant(fresh);
            result
        }
    };
    (@ref $state:expr, $variant:ident, $own:ident, $call:expr) => {
        if let State::$variant($own) = $state {
            $call
        } else {
            let $own = &$variant::default();
            $call
        }
    };
}

impl Algorithm for Single {
    type State = State;

    fn advance(&self, state: &mut State, now: Timestamp, promised: Timestamp) {
        with!(self, &mut state, |algorithm, own| algorithm.advance(own, now, promised));
    }

    fn wait(&self, state: &State, now: Timestamp, cost: Cost) -> Option<Duration> {
        with!(self, &state, |algorithm, own| algorithm.wait(own, now, cost))
    }

    fn charge(&self, state: &mut State, at: Timestamp, cost: Cost) -> Mark {
        with!(self, &mut state, |algorithm, own| algorithm.charge(own, at, cost))
    }

    fn owe(&self, state: &mut State, at: Timestamp, cost: Cost) {
        with!(self, &mut state, |algorithm, own| algorithm.owe(own, at, cost));
    }

    fn refund(&self, state: &mut State, now: Timestamp, charge: &Charge, permits: u64) -> bool {
        with!(self, &mut state, |algorithm, own| algorithm.refund(own, now, charge, permits))
    }

    fn usage(&self, state: &State, now: Timestamp) -> Usage {
        with!(self, &state, |algorithm, own| algorithm.usage(own, now))
    }

    fn longest_delay(&self) -> Duration {
        match self {
            Self::Gcra(gcra) => gcra.longest_delay(),
            _ => Duration::MAX,
        }
    }

    fn with_origin(&self, origin: Timestamp) -> Self {
        match self {
            Self::FixedWindow(window) => Self::FixedWindow(window.with_origin(origin)),
            other => *other,
        }
    }

    fn adopt(&self, state: &mut State, from: &Self, now: Timestamp) {
        match (self, from, state) {
            (Self::Gcra(new), Self::Gcra(old), State::Tat(tat)) => new.adopt(tat, old, now),
            (Self::FixedWindow(new), Self::FixedWindow(old), State::Window(window)) => {
                new.adopt(window, old, now);
            }
            (Self::SlidingCounter(new), Self::SlidingCounter(old), State::Counts(counts)) => {
                new.adopt(counts, old, now);
            }
            (Self::Ledger(new), Self::Ledger(old), State::Entries(entries)) => {
                new.adopt(entries, old, now);
            }
            // Fresh, or of another kind, which no store hands out.
            _ => {}
        }
    }
}
