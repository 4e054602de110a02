//! The step `licences`: what the published crates are built from may be used, and is from crates.io.
//!
//! `deny.toml` lists the licences. `cargo deny` checks the same and more, where it is installed.

mod expression;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};
use xshell::{Shell, cmd};

use crate::dependencies::{self, Dependency};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the licence and the source of each dependency.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let allowed = allowed(&shell.read_file("deny.toml")?)?;
    let dependencies = dependencies::of_published(shell)?;
    for Dependency { name, licence, source, .. } in &dependencies {
        let ok = expression::holds(licence, |one| allowed.iter().any(|allowed| allowed == one));
        ensure!(
            ok.with_context(|| format!("the licence of {name}"))?,
            "{name} has the licence {licence:?}, which deny.toml does not allow; choose another \
             crate, or allow it there"
        );
        ensure!(source == CRATES_IO, "{name} is from {source:?}; published crates need crates.io");
    }
    eprintln!("{} dependencies", dependencies.len());

    if cmd!(shell, "cargo deny --version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
        eprintln!("cargo-deny is not installed, so its own checks are left to the workflow");
        return Ok(());
    }
    Ok(cmd!(shell, "cargo deny --log-level error check licenses bans sources").quiet().run()?)
}

/// Reads the list of licences.
fn allowed(text: &str) -> Result<Vec<String>> {
    let file: Table = text.parse()?;
    let list = file.get("licenses").and_then(|licences| licences.get("allow"));
    let list = list.and_then(Value::as_array).context("deny.toml has no licenses.allow")?;
    Ok(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
