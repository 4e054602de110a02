//! `cargo xtask features` and the step of that name: each published crate builds without warnings
//! whatever features are on, and the layer stays small without them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace::{Published, published};

/// Checks each crate with no feature, with each single one, with all, and if asked with each pair.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let pairs = arguments == ["--pairs"];
    ensure!(pairs || arguments.is_empty(), "features has one option: --pairs");
    for Published { name, features, .. } in published(shell)? {
        let mut combinations = vec![String::new()];
        combinations.extend(features.iter().cloned());
        if pairs {
            combinations.extend(pairs_of(&features));
        }
        for features in combinations {
            clippy(shell, &name, &["--no-default-features", "--features", &features])?;
        }
        clippy(shell, &name, &["--all-features"])?;
    }
    check_dependencies_of_the_layer(shell)
}

/// Returns each pair of features. `default` is left out, because it only enables others.
fn pairs_of(features: &[String]) -> Vec<String> {
    let named: Vec<&String> = features.iter().filter(|feature| *feature != "default").collect();
    let pairs = named.iter().enumerate().flat_map(|(index, first)| {
        named.iter().skip(index + 1).map(move |second| format!("{first},{second}"))
    });
    pairs.collect()
}

fn clippy(shell: &Shell, name: &str, flags: &[&str]) -> Result<()> {
    eprintln!("{name} {}", flags.join(" "));
    // Clippy and not `cargo check`: only it can deny warnings without a rebuild.
    Ok(cmd!(shell, "cargo clippy --quiet -p {name} {flags...} -- -D warnings").quiet().run()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_two_features_are_a_pair_without_the_default() {
        let features = ["a", "b", "default", "c"].map(str::to_owned);
        assert_eq!(pairs_of(&features), ["a,b", "a,c", "b,c"]);
    }
}
