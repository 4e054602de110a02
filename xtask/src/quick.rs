//! `cargo xtask quick`: what finds most mistakes, within a minute if only the last edit has to be built.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::ci;
use crate::steps::Steps;

/// Runs the step of each name up to the first that fails, and prints their times.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "quick takes no arguments");
    let mut steps = Steps::default();
    let result = ["fmt", "tidy", "clippy"]
        .into_iter()
        .try_for_each(|name| steps.run(name, || ci::step(shell, name)))
        .and_then(|()| steps.run("tests of limiter-core", || tests(shell)));
    steps.summarize();
    result
}

/// Without documentation tests, each of which is linked on its own.
fn tests(shell: &Shell) -> Result<()> {
    let only = ["-p", "limiter-core", "--all-features", "--lib", "--tests", "--quiet"];
    Ok(cmd!(shell, "cargo test {only...}").quiet().run()?)
}
