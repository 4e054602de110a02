//! The limiter for one process.
//!
//! | folder or file | what |
//! |---|---|
//! | `front` | the limiter: its methods, how it is built, and how callers wait |
//! | `waiters` | the queues of those who wait |
//! | `states` | a key's state under a policy, in one of two stores |
//! | `words` | debts by GCRA: a check takes no lock where the key has its slot |
//! | `table` | states of any size under locks |
//! | `place` | from a key's hash to its lines |
//! | `full` | what happens to keys without a slot |
//! | `epoch` | until when charges can be refunded |
//! | `present` | the two times by which waiters are due and sleep |

mod epoch;
mod front;
mod full;
mod place;
mod present;
mod states;
mod table;
mod waiters;
mod words;

pub use front::{Builder, MemoryLimiter};
pub use full::OnFull;
