//! `cargo xtask api`: the public API of each published library, as a list that a review can read.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace;

/// Where the lists are.
const FOLDER: &str = "docs/api";

/// Writes all lists, or checks that they are as they would be written.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let check = arguments == ["--check"];
    ensure!(check || arguments.is_empty(), "api has one option: --check");
    let tool = cmd!(shell, "cargo public-api --version").quiet().ignore_stdout().ignore_stderr();
    ensure!(
        tool.run().is_ok(),
        "cargo-public-api is missing; install it with `cargo install --locked cargo-public-api` \
         and a nightly compiler with `rustup toolchain install nightly --profile minimal`"
    );
    // Built apart, because another compiler would have all of it built anew each time.
    let target = workspace::target_folder(shell)?.join("api");
    let temporary = shell.create_temp_dir()?;
    let mut changed = Vec::new();
    for krate in workspace::published(shell)?.into_iter().filter(|krate| krate.has_library) {
        let name = &krate.name;
        eprintln!("{name}");
        let list = cmd!(shell, "cargo +nightly public-api -p {name} --all-features -s")
            .args(["--color=never", "--target-dir"])
            .arg(&target)
            .quiet()
            .read()?;
        let path = format!("{FOLDER}/{name}.txt");
        let new = if check { temporary.path().join(name) } else { shell.current_dir().join(&path) };
        shell.write_file(&new, stable(&list))?;
        let difference = cmd!(shell, "git --no-pager diff --no-index {path} {new}").quiet();
        if check && difference.run().is_err() {
            changed.push(path);
        }
    }
    ensure!(
        changed.is_empty(),
        "{} not up to date; write with `cargo xtask api`, and list the changes in CHANGELOG.md",
        changed.join(", ")
    );
    Ok(())
}

/// Leaves out the traits that only a nightly compiler can name.
fn stable(list: &str) -> String {
    let is_stable = |line: &&str| {
        ["core::marker::Freeze", "core::marker::UnsafeUnpin"]
            .iter()
            .all(|name| !line.contains(name))
    };
    list.lines().filter(is_stable).flat_map(|line| [line, "\n"]).collect()
}
