//! `cargo xtask scripts`: the scripts of limiter-redis as they are sent.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

/// Writes all scripts. A test of limiter-redis checks that they are current.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "scripts has no options");
    let test = ["-p", "limiter-redis", "--lib", "--quiet", "scripts_in_the_documents_are_sent"];
    cmd!(shell, "cargo test {test...}").env("LIMITER_WRITE_DOCS", "1").ignore_stdout().run()?;
    for path in shell.read_dir("docs/scripts")? {
        let lines = shell.read_file(&path)?.lines().count();
        println!("{} has {lines} lines", path.display());
    }
    Ok(())
}
