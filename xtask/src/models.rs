//! `cargo xtask models`: the model checker tries what threads share, in every interleaving.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::workspace;

/// Runs the models whose names contain the argument, or all.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    // Built apart: the flag is for all dependencies, and would have them built anew each time.
    let folder = workspace::target_folder(shell)?.join("loom");
    cmd!(
        shell,
        "cargo test --package limiter-core --test models --target-dir {folder} -- {arguments...}"
    )
    .env("RUSTFLAGS", "--cfg loom")
    .env("RUST_BACKTRACE", "0")
    .quiet()
    .run()?;
    Ok(())
}
