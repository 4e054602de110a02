//! The step `rust-version`: Cargo.toml states the oldest compiler that builds the published crates.

use anyhow::{Context, Result, ensure};
use xshell::Shell;

use crate::dependencies::{self, Dependency};
use crate::workspace;

/// The oldest compiler that knows the syntax of the code: let chains. The step `clippy` fails if
/// an item of the standard library is newer than what Cargo.toml states.
const SYNTAX: &str = "1.88";

/// Compares what each published crate states with what its code and its dependencies need.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let dependencies = dependencies::of_published(shell)?;
    let (needed, by) = needed(&dependencies)?;
    for krate in workspace::published(shell)? {
        ensure!(
            parse(&krate.rust_version)? == parse(needed)?,
            "{} states rust-version = {:?}; write {needed:?}, which {by} needs",
            krate.name,
            krate.rust_version
        );
    }
    eprintln!("Rust {needed}, which {by} needs");
    Ok(())
}

/// Returns the oldest compiler that suffices, and what needs it.
fn needed(dependencies: &[Dependency]) -> Result<(&str, &str)> {
    let mut most = (SYNTAX, "the code's syntax");
    for Dependency { name, rust_version, .. } in dependencies {
        if !rust_version.is_empty() && parse(rust_version)? > parse(most.0)? {
            most = (rust_version, name);
        }
    }
    Ok(most)
}

/// Reads a version of one to three numbers.
fn parse(version: &str) -> Result<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut places = numbers.iter_mut();
    for part in version.split('.') {
        let place = places.next().with_context(|| format!("version {version:?}"))?;
        *place = part.parse().with_context(|| format!("version {version:?}"))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(name: &str, rust_version: &str) -> Dependency {
        let (name, rust_version) = (name.to_owned(), rust_version.to_owned());
        Dependency { name, rust_version, licence: String::new(), source: String::new() }
    }

    #[test]
    fn newest_dependency_decides() {
        let some = ["1.9", "1.100.1", "", "1.100"].map(|version| dependency(version, version));
        assert_eq!(needed(&some).unwrap(), ("1.100.1", "1.100.1"));
    }

    #[test]
    fn code_decides_over_older_dependencies() {
        let some = ["1.9", "1.88.0", ""].map(|version| dependency(version, version));
        assert_eq!(needed(&some).unwrap(), (SYNTAX, "the code's syntax"));
    }

    #[test]
    fn invalid_versions_are_refused() {
        for invalid in ["", "1.x", "1.2.3.4"] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }
}
