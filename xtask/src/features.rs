//! The step `features`: each published crate builds without warnings whatever features are on.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::workspace::{Published, published};

/// Checks each crate with no feature, with each single one, and with all.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    for Published { name, features } in published(shell)? {
        let single =
            features.iter().map(|feature| vec!["--no-default-features", "--features", feature]);
        let combinations = [vec!["--no-default-features"], vec!["--all-features"]];
        for flags in single.chain(combinations) {
            eprintln!("{name} {}", flags.join(" "));
            // Clippy and not `cargo check`: only it can deny warnings without a rebuild.
            cmd!(shell, "cargo clippy --quiet -p {name} {flags...} -- -D warnings")
                .quiet()
                .run()?;
        }
    }
    Ok(())
}
