//! Test servers, programs driven from outside, captured logs, planted secrets, and audits of what processes admitted.
//!
//! The tests of this crate run whole processes against servers.

#![expect(clippy::panic, clippy::expect_used, reason = "a helper that fails fails its test")]

pub mod audit;
pub mod log;
pub mod program;
pub mod secrets;
pub mod server;

/// The program in the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
