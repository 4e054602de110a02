//! `cargo xtask simulate`: fleets of processes and their server in one thread, with faults drawn from seeds.

use anyhow::Result;
use xshell::{Shell, cmd};

pub(crate) const OPTIONS: &str = "[--seed N] [--minutes M] [--processes P] [--wrong NAME|all]";

/// Runs one seed, new seeds for a minute or as long as asked, or wrong variants until each is found.
///
/// In a release build and as a program of its own, so that the other tasks don't need limiter-redis.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let program = ["--release", "--package", "limiter-sim", "--bin", "simulate"];
    Ok(cmd!(shell, "cargo run --quiet {program...} -- {arguments...}").quiet().run()?)
}
