//! The limiter for one process.
//!
//! | folder or file | what |
//! |---|---|
//! | `front` | the limiter: its methods, how it is built, and how callers wait |
//! | `waiters` | the queues of waiters, one a key |
//! | `states` | the states of a policy's limits |
//! | `tables` | the two tables of a limiter, and how large they are |
//! | `list` | one decision over several limits |
//! | `limits` | operations on all limits of a policy |
//! | `words` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `taking` | charges of as many permits as fit, or of all in any case |
//! | `key_hasher` | from a key to its hash |
//! | `salts` | the policies under which a key is reset |
//! | `place` | from a key's hash to its lines |
//! | `full` | what happens to keys without a slot |
//! | `epoch` | until when charges can be refunded |
//! | `present` | the two times by which waiters are due and sleep |
//!
//! A check by GCRA passes these functions, and helpers of one line:
//!
//! 1. `MemoryLimiter::check` and `check_n`, `KeyHasher::hash` and `Key::hash`: the key's hash
//! 2. `Handle::check`, and `Queues::are_empty_for`: no waiter comes first
//! 3. `States::check` and `store`, `Tables::store`: the table of the only limit's states
//! 4. `Handle::now`, and `Words::check`, `own`, `with_tag` and `first`: the key's slot
//! 5. `OwnSlot::check` and `Gcra::check`: the decision, and the debt after it
//! 6. `Slot::charge`: the compare-and-swap
//!
//! By other algorithms, and where GCRA takes a lock, `check` goes on to `Handle::check_locked` and
//! `States::check_locked`, and from there to `Table::with`, `Line::slot_of`, `Table::update` and `apply`, and
//! `Transition::decide`. Under several limits, it goes on to `States::take_of_each` and `List`.

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
