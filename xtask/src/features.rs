//! The step `features`: each published crate builds without warnings whatever features are on, and the
//! layer stays small without them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
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
    check_dependencies_of_the_layer(shell)
}

/// The most crates that the layer depends on without its features, beside the core's own.
const MOST_DEPENDENCIES: usize = 20;

fn check_dependencies_of_the_layer(shell: &Shell) -> Result<()> {
    let crates = |name: &str| -> Result<BTreeSet<String>> {
        let tree = cmd!(shell, "cargo tree --no-default-features --edges normal --prefix none")
            .args(["--format", "{p}", "-p", name])
            .quiet()
            .read()?;
        Ok(tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
    };
    let core = crates("limiter-core")?;
    let own = crates("limiter-tower")?;
    let beside: Vec<_> =
        own.difference(&core).filter(|name| !name.starts_with("limiter-")).collect();
    eprintln!("limiter-tower without features: {} crates beside the core", beside.len());
    ensure!(
        beside.len() <= MOST_DEPENDENCIES,
        "limiter-tower depends on {} crates without features, and {MOST_DEPENDENCIES} are the \
         most: {beside:?}",
        beside.len()
    );
    Ok(())
}
