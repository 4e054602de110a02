//! The step `package`: each published crate can be packaged, with what its users have to find in it.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace::{Published, published};

/// Files that each package has beside its code.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages the published crates, without building the packages: that takes minutes.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let mut names = Vec::new();
    for Published { name, missing, .. } in published(shell)? {
        ensure!(missing.is_empty(), "Cargo.toml of {name} has no {}", missing.join(", "));
        let list = cmd!(shell, "cargo package --list --allow-dirty -p {name}").quiet().read()?;
        for file in FILES {
            let found = list.lines().any(|line| line == file);
            ensure!(found, "the package of {name} has no {file}; link it into the crate's folder");
        }
        names.extend(["-p".to_owned(), name]);
    }
    Ok(cmd!(shell, "cargo package --quiet --allow-dirty --no-verify {names...}").quiet().run()?)
}
