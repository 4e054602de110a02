//! The conformance suite that every limiter runs, with its schedules, its oracle and the servers
//! to run it on.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a helper that fails fails its test"
)]

pub mod server;
