//! The algorithms: what a policy chooses from, and each as a pure transition of a key's state.
//!
//! To limit something, use a [`Policy`](crate::Policy) and a limiter. The transitions are public
//! only for the other crates of this workspace; they may change in any release.
//!
//! | algorithm | transition | state of a key |
//! |---|---|---|
//! | GCRA, token bucket, leaky bucket as meter or queue | [`Gcra`] | [`Tat`] |
//! | fixed window, aligned window, sliding counter | [`Windows`] | [`Counts`] |
//! | sub-windows, exact log | [`Ledger`] | [`Entries`] |
//! | several limits at once | [`Several`] | the states of its limits |

mod gcra;
mod kind;
mod ledger;
mod pace;
mod rule;
mod slots;
pub(crate) mod ticks;
mod transition;
mod windows;

pub use gcra::{Gcra, Tat, Writer};
pub use kind::Algorithm;
pub use ledger::{Entries, Ledger};
pub use rule::{Rule, Several, State};
pub use slots::Slots;
pub use transition::{Charge, Marks, Transition};
pub use windows::{Counts, WindowKind, Windows};

use crate::Timestamp;

/// The latest time that an algorithm reads, 109 years after the clock's zero. Later times are read as
/// this one, so that no sum of a time, a capacity and a horizon overflows.
const LAST: u64 = 3 << 60;

const fn nanos(at: Timestamp) -> u64 {
    if at.as_nanos() < LAST { at.as_nanos() } else { LAST }
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
