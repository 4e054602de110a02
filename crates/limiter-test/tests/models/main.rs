//! A model of the rule of leases: a small state space in which every schedule is tried.
//!
//! A model states a rule in whole units of time, and the search visits each state that any order of its steps
//! reaches. The right rule never admits more than the bound. Each wrong rule changes one clause, and the test asserts the
//! shortest schedule by which it exceeds the bound, so that a clause without a purpose would be noticed.
//!
//! A model is of a rule, not of the code. So that the two can't drift apart, its module `code` compares it with the scripts
//! in all the states that the model reaches.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a model that fails fails its test"
)]

mod admissions;
mod lease;
mod server;
