//! `cargo xtask doctor URL`: what a Redis or Valkey server should be told before it keeps limits.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

/// Runs the example, so that nothing of a client has to be built for the other tasks.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let usage =
        "doctor takes an address and maybe a prefix, such as redis://127.0.0.1:6379 limiter";
    ensure!(matches!(arguments.len(), 1 | 2), usage);
    cmd!(
        shell,
        "cargo run --quiet -p limiter-redis --features tls --example doctor -- {arguments...}"
    )
    .quiet()
    .run()?;
    Ok(())
}
