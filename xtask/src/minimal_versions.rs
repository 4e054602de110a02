//! `cargo xtask minimal-versions`: the published crates build with the oldest versions that they allow.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace;

/// Builds a copy of the workspace, so that Cargo.lock stays as it is.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "minimal-versions takes no arguments");
    let copy = workspace::target_folder(shell)?.join("minimal-versions");
    copy_tree(shell, &copy)?;
    let published = workspace::published(shell)?;
    let names = published.iter().flat_map(|krate| ["-p", krate.name.as_str()]);

    let _inside = shell.push_dir(&copy);
    shell.remove_path("Cargo.lock")?;
    // Direct dependencies only: those of others have bounds that nobody here can correct.
    cmd!(shell, "cargo +nightly generate-lockfile -Z direct-minimal-versions").quiet().run()?;
    cmd!(shell, "cargo check --locked --all-features --target-dir target {names...}")
        .quiet()
        .run()
        .context(
            "a lower bound in Cargo.toml is too low; raise it to the first version that builds",
        )
}

/// Copies what git tracks, and what it neither tracks nor ignores. Files that did not change keep
/// their dates, so that only what changed is built again.
fn copy_tree(shell: &Shell, to: &Path) -> Result<()> {
    let paths = cmd!(shell, "git ls-files -z -co --exclude-standard").quiet().read()?;
    for path in paths.split_terminator('\0') {
        let (from, to) = (shell.current_dir().join(path), to.join(path));
        // Deleted files are skipped.
        let Ok(content) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|old| old == content) {
            continue;
        }
        shell.create_dir(to.parent().context("a file has a folder")?)?;
        shell.write_file(&to, content)?;
    }
    Ok(())
}
