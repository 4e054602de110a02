//! Runs the program, and plays with it by curl and in a browser.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod browser;
mod by_curl;
mod page;

use std::process::Command;

use limiter_rig::program::Program;
use serde_json::Value;

/// Starts the example on a free port.
fn start() -> Program {
    Program::start(&mut Command::new(env!("CARGO_BIN_EXE_example-playground")))
}

/// Returns what the server has counted under the current limit.
fn counts(program: &Program) -> Value {
    serde_json::from_str(&program.curl(&[], "/playground").body).unwrap()
}
