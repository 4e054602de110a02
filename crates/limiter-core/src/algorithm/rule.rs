//! The transition of a policy, chosen at run time.

use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Charge, Counts, Entries, Gcra, Ledger, Marks, Several, Tat, Transition, WindowKind, Windows,
};
use crate::{Algorithm, Cost, Limit, Timestamp, Usage};

/// The transition of a policy: that of its algorithm, or of its several limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A debt that drains.
    Gcra(Gcra),
    /// A counter of whole windows.
    Windows(Windows),
    /// Dated entries.
    Ledger(Ledger),
    /// Several limits at once.
    Several(Several<Self>),
}

/// The state of a [`Rule`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The fresh state of any algorithm.
    #[default]
    Fresh,
    /// That of [`Gcra`].
    Gcra(Tat),
    /// That of [`Windows`].
    Windows(Counts),
    /// That of [`Ledger`].
    Ledger(Entries),
    /// That of [`Several`].
    Several(Vec<State>),
}

impl Rule {
    /// Returns the transition of the only limit, or of several together.
    pub(crate) fn new(limits: &[Limit]) -> Self {
        match limits {
            [only] => Self::of_limit(only),
            several => Self::Several(Several(several.iter().map(Self::of_limit).collect())),
        }
    }

    fn of_limit(limit: &Limit) -> Self {
        let (quota, horizon) = (limit.quota(), limit.horizon());
        let windows = |kind| Self::Windows(Windows::new(kind, quota, horizon));
        match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => Self::Gcra(Gcra::new(quota, horizon)),
            Algorithm::FixedWindow => windows(WindowKind::Fixed),
            Algorithm::AlignedWindow => windows(WindowKind::Aligned),
            Algorithm::SlidingCounter => windows(WindowKind::Sliding),
            Algorithm::SubWindows(slots) => {
                Self::Ledger(Ledger::sub_windows(quota, horizon, slots))
            }
            Algorithm::SlidingLog => Self::Ledger(Ledger::sliding_log(quota, horizon)),
        }
    }
}

#[cfg(feature = "std")]
impl State {
    /// Returns for how many entries it has memory beyond its fixed size.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::Ledger(entries) => entries.allocated(),
            Self::Several(states) => states.iter().map(Self::entries).sum(),
            _ => 0,
        }
    }

    /// Merges the two newest entries of each log, which lowers no debt.
    pub(crate) fn merge_newest(&mut self) {
        match self {
            Self::Ledger(entries) => entries.merge_newest(),
            Self::Several(states) => states.iter_mut().for_each(Self::merge_newest),
            _ => {}
        }
    }

    /// Returns a state of bounded size that owes at least as much for at least as long.
    pub(crate) fn merged(&self) -> Self {
        match self {
            Self::Ledger(entries) => Self::Ledger(entries.merged()),
            Self::Several(states) => Self::Several(states.iter().map(Self::merged).collect()),
            other => other.clone(),
        }
    }
}

/// Calls a transition with its own state. A state of another algorithm, which no store hands out,
/// counts as fresh.
macro_rules! dispatch {
    ($access:ident $rule:expr, $state:expr, |$own:ident, $value:ident| $call:expr) => {
        match $rule {
            Rule::Gcra($own) => dispatch!(@$access Gcra, $state, $value, $call),
            Rule::Windows($own) => dispatch!(@$access Windows, $state, $value, $call),
            Rule::Ledger($own) => dispatch!(@$access Ledger, $state, $value, $call),
            Rule::Several($own) => dispatch!(@$access Several, $state, $value, $call),
        }
    };
    (@write $variant:ident, $state:expr, $value:ident, $call:expr) => {
        if let State::$variant($value) = $state {
            $call
        } else {
            let mut fresh = Default::default();
            let $value = &mut fresh;
            let result = $call;
            *$state = State::$variant(fresh);
            result
        }
    };
    (@read $variant:ident, $state:expr, $value:ident, $call:expr) => {
        if let State::$variant($value) = $state {
            $call
        } else {
            let $value = &Default::default();
            $call
        }
    };
}

impl Transition for Rule {
    type State = State;

    fn is_possible(&self, state: &State, now: Timestamp) -> bool {
        dispatch!(read self, state, |own, value| own.is_possible(value, now))
    }

    fn advance(&self, state: &mut State, now: Timestamp) {
        dispatch!(write self, state, |own, value| own.advance(value, now));
    }

    fn wait(&self, state: &State, now: Timestamp, cost: Cost) -> Option<Duration> {
        dispatch!(read self, state, |own, value| own.wait(value, now, cost))
    }

    fn charge(&self, state: &mut State, at: Timestamp, cost: Cost) -> Marks {
        dispatch!(write self, state, |own, value| own.charge(value, at, cost))
    }

    fn refund(&self, state: &mut State, now: Timestamp, charge: &Charge, permits: u64) -> u64 {
        dispatch!(write self, state, |own, value| own.refund(value, now, charge, permits))
    }

    fn usage(&self, state: &State, now: Timestamp) -> Usage {
        dispatch!(read self, state, |own, value| own.usage(value, now))
    }

    fn refusing(&self, state: &State, now: Timestamp, cost: Cost) -> Usage {
        dispatch!(read self, state, |own, value| own.refusing(value, now, cost))
    }

    fn longest_delay(&self, state: &State) -> Duration {
        dispatch!(read self, state, |own, value| own.longest_delay(value))
    }

    fn is_fresh(&self, state: &State, now: Timestamp) -> bool {
        dispatch!(read self, state, |own, value| own.is_fresh(value, now))
    }
}
