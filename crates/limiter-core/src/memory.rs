//! The limiters for one process.
//!
//! | file | what |
//! |---|---|
//! | `keyed`, `unkeyed`, `builder` | the limiters, and how they are built |
//! | `handle` | the operations, for both |
//! | `states` | where states are stored: words for GCRA, a locked table for all else |
//! | `word`, `words`, `scales` | one lock-free word a key |
//! | `table` | states of any size under locks |
//! | `queue`, `acquire` | waiters |

mod acquire;
mod builder;
mod handle;
mod keyed;
mod queue;
mod scales;
mod states;
mod table;
mod unkeyed;
mod word;
mod words;

pub use builder::Builder;
pub use keyed::MemoryLimiter;
pub(crate) use states::Taken;
pub use unkeyed::UnkeyedLimiter;
