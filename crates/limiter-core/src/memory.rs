//! The limiter for one process.
//!
//! | folder or file | what |
//! |---|---|
//! | `front` | the limiter: its methods, how it is built, how callers wait, and lists of demands |
//! | `waiters` | the queues of waiters, one a key |
//! | `states` | a key's operations, with what they charged |
//! | `held` | one operation on all states that it needs, which nobody else changes meanwhile |
//! | `debts` | several debts by GCRA, charged without a lock |
//! | `tables` | the two tables of a limiter, and how large they are |
//! | `words` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `key_hasher` | from a key to its hash |
//! | `salts` | the policies under which a key is reset |
//! | `place` | from a key's hash to its lines |
//! | `full` | what happens to keys without a slot |
//! | `epoch` | until when charges can be refunded |
//!
//! A check by GCRA passes these functions, and helpers of one line:
//!
//! 1. `MemoryLimiter::check` and `check_n`, `KeyHasher::hash` and `Key::hash`: the key's hash
//! 2. `MemoryLimiter::check_hash` and `check_without_lock`: `Tables::store`, the table of the only limit's states, and
//!    `Queues::are_empty_for`, no waiter comes first
//! 3. `Words::check` and `own`: the key's slot
//! 4. `Gcra::check`: the decision, and the debt after it
//! 5. `Slot::charge`: the compare-and-swap
//!
//! In every other case it goes on to `MemoryLimiter::check_slow_path`: to `Debts::charge` for several limits by GCRA, or to
//! `States::operate` and `held::operate`, which holds the states for `KeyStates::take` of `algorithms`.

mod debts;
mod epoch;
mod front;
mod full;
mod held;
mod key_hasher;
mod place;
mod salts;
mod states;
mod table;
mod tables;
mod waiters;
mod words;

pub(crate) use front::check_capacity;
pub use front::{Builder, MemoryDemand, MemoryLimiter};
pub use full::OnFull;
pub(crate) use key_hasher::KeyHasher;
pub(crate) use place::part_of;
