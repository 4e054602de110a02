//! `cargo xtask bench`: how fast limits through Redis are, and how much memory they take there.

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::servers::{self, Release};
use crate::{test, workspace};

/// Runs the package in `bench/`, on the server named or at hand.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let mut passed_on = Vec::new();
    let mut server = None;
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "redis" | "redis-memory" if passed_on.is_empty() => passed_on.push(argument),
            "--quick" if passed_on == ["redis"] => passed_on.push(argument),
            "--server" => {
                let name = arguments.next();
                let name =
                    name.with_context(|| format!("--server needs one of {}", servers::names()))?;
                server = Some(Release::named(name)?.path(shell)?);
            }
            other => bail!("bench has no `{other}` there; use {OPTIONS}"),
        }
    }
    if passed_on.is_empty() {
        bail!("bench of what? Use {OPTIONS}");
    }
    let server = server.map_or_else(|| test::choose(shell), Ok)?;
    // Beside the main tree's own output: the peers enable features that it does without.
    let target = workspace::target_folder(shell)?.join("bench");
    cmd!(shell, "cargo run --release --manifest-path bench/Cargo.toml --target-dir {target}")
        .arg("--")
        .args(passed_on)
        .env("LIMITER_SERVER", server)
        .quiet()
        .run()?;
    Ok(())
}

/// What may follow on the command line.
pub(crate) const OPTIONS: &str = "redis [--quick] | redis-memory, and [--server NAME]";
