//! `cargo xtask minimal-versions`: the published crates build with the oldest versions that they allow.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace;

/// Builds a copy of the workspace that has no Cargo.lock, so that Cargo chooses the versions.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "minimal-versions takes no arguments");
    let copy = workspace::target_folder(shell)?.join("minimal-versions");
    copy_manifests_and_code(shell, &copy)?;
    let published = workspace::published(shell)?;
    let names = published.iter().flat_map(|krate| ["-p", krate.name.as_str()]);

    let _inside = shell.push_dir(&copy);
    // Only direct dependencies, because the bounds of others' manifests can't be corrected here.
    // Without those of the tests, which may need newer versions than users do.
    cmd!(shell, "cargo +nightly check -Z direct-minimal-versions -Z avoid-dev-deps")
        .args(["--all-features", "--target-dir", "target"])
        .args(names)
        .quiet()
        .run()
        .context("raise the lower bound in Cargo.toml to the first version that builds")
}

fn copy_manifests_and_code(shell: &Shell, to: &Path) -> Result<()> {
    let folders = ["Cargo.toml", "crates", "examples", "xtask"];
    for folder in folders {
        shell.remove_path(to.join(folder))?;
    }
    let paths =
        cmd!(shell, "git ls-files -z -co --exclude-standard {folders...}").quiet().read()?;
    for path in paths.split_terminator('\0') {
        let (from, to) = (shell.current_dir().join(path), to.join(path));
        // Deleted files are listed too, and skipped.
        if from.exists() {
            shell.create_dir(to.parent().context("a file without a folder")?)?;
            fs::copy(&from, &to).with_context(|| path.to_owned())?;
        }
    }
    Ok(())
}
