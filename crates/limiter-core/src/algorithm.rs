//! The algorithms: what a policy chooses from, and each as a pure transition of a key's state.
//! [`store`](crate::store) lists them.

mod entries;
mod gcra;
mod kind;
mod ledger;
mod pace;
mod rule;
mod slots;
pub(crate) mod ticks;
mod transition;
mod window;
mod windows;

pub use entries::Entries;
pub use gcra::{Gcra, Tat, Writer};
pub use kind::Algorithm;
pub use ledger::Ledger;
pub use rule::{AllOf, Rule, State};
pub use slots::Slots;
pub use transition::{Charge, Marks, Refunded, Transition};
pub use window::Counts;
pub use windows::{WindowKind, Windows};

use crate::Timestamp;

/// The latest time that windows and logs read, 566 years after the clock's zero. Later times are read as
/// this one, so that no sum of a time, a window and a horizon overflows.
const LAST: u64 = u64::MAX - (1 << 59);

const fn nanos(at: Timestamp) -> u64 {
    if at.as_nanos() < LAST { at.as_nanos() } else { LAST }
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
