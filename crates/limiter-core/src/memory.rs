//! The limiter for one process.
//!
//! | file | what |
//! |---|---|
//! | `limiter`, `methods`, `dynamic` | the limiter: how it decides, what callers ask it for, and the same as a trait object |
//! | `builder` | its settings |
//! | `decide`, `debts` | lists of demands; several debts by GCRA, charged without a lock |
//! | `acquire`, `waiters` | how callers wait; the queues of waiters, one a key |
//! | `states` | a key's operations, with what they charged |
//! | `held`, `place` | one operation on all states that it needs, which nobody else changes meanwhile; where they are |
//! | `tables` | the two tables of a limiter, how large they are, and the salts of its policies |
//! | `words` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `key_hasher` | from a key to its hash, and to its lines |
//!
//! A check by GCRA passes these functions, and helpers of one line:
//!
//! 1. `MemoryLimiter::check` and `check_n`, `KeyHasher::hash` and `Key::hash`: the key's hash
//! 2. `MemoryLimiter::check_hash` and `check_without_lock`, `Queues::are_empty_for`: no waiter comes first
//! 3. `Words::check` and `own`: the key's slot
//! 4. `Gcra::check`: the decision, and the debt after it
//! 5. `Slot::charge`: the compare-and-swap
//!
//! In every other case it goes on to `MemoryLimiter::check_slow_path`: to `Debts::charge` for several limits by GCRA, or to
//! `Tables::operate` and `held::operate`, which holds the states for `KeyStates::take` of `algorithms`.

mod acquire;
mod builder;
mod debts;
mod decide;
mod dynamic;
mod held;
mod key_hasher;
mod limiter;
mod methods;
mod place;
mod states;
mod table;
mod tables;
mod waiters;
mod words;

pub use builder::Builder;
pub(crate) use builder::check_capacity;
pub use decide::MemoryDemand;
pub(crate) use key_hasher::{KeyHasher, part_of};
pub use limiter::MemoryLimiter;
pub use tables::OnFull;
