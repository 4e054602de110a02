//! `cargo xtask examples`: runs each example, and shows what its tests see.

use std::fs;

use anyhow::{Result, bail};
use xshell::Shell;

use crate::test;

pub(crate) const OPTIONS: &str = "[--full] [NAME...]";

/// Runs the tests of the examples named, or of all, one after the other.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let (options, chosen): (Vec<_>, Vec<_>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with('-'));
    let known = names(shell)?;
    let mut tests: Vec<String> = ["--test", "example"].map(str::to_owned).into();
    for name in known.iter().filter(|name| chosen.is_empty() || chosen.contains(&name.as_str())) {
        tests.extend(["-p".to_owned(), format!("example-{name}")]);
    }
    if let Some(unknown) = chosen.iter().find(|name| !known.iter().any(|known| known == *name)) {
        bail!("no example `{unknown}`; the examples are {}", known.join(", "));
    }
    tests.extend(["--", "--nocapture", "--test-threads=1"].map(str::to_owned));
    match options.as_slice() {
        [] => {}
        ["--full"] => tests.push("--include-ignored".to_owned()),
        _ => bail!("examples has one option: --full"),
    }
    test::run(shell, &tests)
}

/// Returns the names of the folders in `examples`, which are those of the packages behind `example-`.
fn names(shell: &Shell) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(shell.current_dir().join("examples"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
