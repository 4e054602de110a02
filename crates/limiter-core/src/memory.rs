//! The limiters for one process.
//!
//! | file | what |
//! |---|---|
//! | `keyed`, `unkeyed`, `builder`, `on_full` | the limiters, and how they are built |
//! | `handle` | the operations, for both |
//! | `states` | where states are stored: words for GCRA, a locked table for all else |
//! | `place` | from a key's hash to its lines |
//! | `slot`, `words`, `quotas` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `queue`, `acquire`, `present` | waiters, and the two times by which they are due and sleep |

mod acquire;
mod builder;
mod handle;
mod keyed;
mod on_full;
mod place;
mod present;
mod queue;
mod quotas;
mod slot;
mod states;
mod table;
mod unkeyed;
mod words;

pub use builder::Builder;
pub use keyed::MemoryLimiter;
pub use on_full::OnFull;
pub(crate) use states::Taken;
pub use unkeyed::UnkeyedLimiter;
