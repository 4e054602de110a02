//! The conformance suite that every limiter runs, with its schedules, its oracle and the servers
//! to run it on.

#![expect(clippy::panic, clippy::expect_used, reason = "a helper that fails fails its test")]

pub mod audit;
pub mod bounds;
pub mod conformance;
pub mod deferred;
pub mod fake;
pub mod laws;
pub mod log;
pub mod machine;
pub mod oracle;
pub mod policies;
pub mod program;
pub mod schedule;
pub mod server;
pub mod subject;
pub mod traffic;
pub mod turns;

/// The program in the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
