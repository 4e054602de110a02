//! The conformance suite that every limiter runs, with its schedules, its oracle, and test doubles.
//!
//! It starts no process and opens no connection, so that each crate can run it at little cost.

#![expect(clippy::panic, clippy::expect_used, reason = "a helper that fails fails its test")]

pub mod bounds;
pub mod conformance;
pub mod deferred;
pub mod fake;
pub mod laws;
pub mod lists;
pub mod oracle;
pub mod policies;
pub mod properties;
pub mod schedule;
pub mod subject;
pub mod traffic;
