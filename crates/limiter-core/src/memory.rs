//! The limiter for one process.
//!
//! | folder or file | what |
//! |---|---|
//! | `front` | the limiter: its methods, how it is built, and how callers wait |
//! | `waiters` | the queues of waiters, one a key |
//! | `states` | a key's state under a policy, in one of two stores |
//! | `words` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `taking` | charges of as many permits as fit, or of all in any case |
//! | `key_hasher` | from a key to its hash |
//! | `place` | from a key's hash to its lines |
//! | `full` | what happens to keys without a slot |
//! | `epoch` | until when charges can be refunded |
//! | `present` | the two times by which waiters are due and sleep |
//!
//! A check by GCRA passes these functions, and helpers of one line:
//!
//! 1. `MemoryLimiter::check` and `check_n`, `KeyHasher::hash` and `Key::hash`: the key's hash
//! 2. `Handle::check`, and `Queues::are_empty_for`: no waiter comes first
//! 3. `States::check`: the store of the policy's states
//! 4. `Handle::now`, and `Words::check`, `with_tag` and `first`: the key's slot
//! 5. `Gcra::check`: the decision, and the debt after it
//! 6. `Slot::charge`: the compare-and-swap
//!
//! By other algorithms, and where GCRA takes a lock, `check` goes on to `Handle::check_locked` and
//! `States::check_locked`, and from there to `Table::with`, `Line::slot_of`, `Table::update` and `apply`, and
//! `Transition::decide`.

mod epoch;
mod front;
mod full;
mod key_hasher;
mod place;
mod present;
mod states;
mod table;
mod taking;
mod waiters;
mod words;

pub use front::{Builder, MemoryLimiter};
pub use full::OnFull;
pub(crate) use key_hasher::KeyHasher;
pub(crate) use place::part_of;
