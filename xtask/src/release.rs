//! `cargo xtask release --check`: all that a release does, but for the upload.

mod archives;
mod changelog;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use xshell::Shell;

use crate::steps::Steps;
use crate::workspace::{self, Published};
use crate::{features, licences, package, rust_version};

/// Checks the published crates, builds and tests their packages, and lists what only the owner can fill in.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments == ["--check"], "release has one option, which it needs: --check");
    let crates = workspace::published(shell)?;
    let changelog = shell.read_file("CHANGELOG.md")?;
    let mut steps = Steps::default();
    let result = steps
        .run("versions", || changelog::check(&changelog, version(&crates)?))
        .and_then(|()| steps.run("rust-version", || rust_version::check(shell)))
        .and_then(|()| steps.run("licences", || licences::check(shell)))
        .and_then(|()| steps.run("metadata, links and packages", || package::check(shell)))
        .and_then(|()| steps.run("features", || features::run(shell, &[])))
        .and_then(|()| steps.run("tests of the packages", || archives::test(shell, &crates)));
    steps.summarize();
    result?;

    println!("Ready, but for what only the owner can fill in:");
    for (number, open) in open(&crates, &changelog).iter().enumerate() {
        println!("{}. {open}", number + 1);
    }
    Ok(())
}

/// Returns the version that all crates share.
fn version(crates: &[Published]) -> Result<&str> {
    let versions: BTreeSet<&str> = crates.iter().map(|krate| krate.version.as_str()).collect();
    ensure!(versions.len() == 1, "the crates have several versions: {versions:?}");
    for Published { name, version, family, .. } in crates {
        for (other, requirement) in family {
            ensure!(
                requirement.trim_start_matches(['^', '=']) == version,
                "{name} {version} needs {other} {requirement}; write {version:?} in the workspace's Cargo.toml"
            );
        }
    }
    Ok(versions.first().copied().unwrap_or_default())
}

/// Returns what no check can decide.
fn open(crates: &[Published], changelog: &str) -> Vec<String> {
    let mut open = Vec::new();
    let without: Vec<&str> = crates
        .iter()
        .filter(|krate| krate.repository.is_none())
        .map(|krate| krate.name.as_str())
        .collect();
    if !without.is_empty() {
        let names = without.join(", ");
        open.push(format!(
            "the address of the repository: `repository` in [workspace.package], and `repository.workspace = true` in \
             {names}. crates.io resolves the relative links of READMEs by it"
        ));
    }
    if changelog::is_undated(changelog) {
        open.push("the date of the release, in the first heading of CHANGELOG.md".to_owned());
    }
    let names: Vec<&str> = crates.iter().map(|krate| krate.name.as_str()).collect();
    open.push(format!(
        "an account on crates.io that owns, or can take, the names {}",
        names.join(", ")
    ));
    open.push(
        "private vulnerability reporting, switched on where the repository is, for SECURITY.md"
            .to_owned(),
    );
    open.push("`cargo publish --workspace`, and a tag of the version on the commit".to_owned());
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(version: &str, needs: &str) -> Published {
        let family = vec![("limiter-core".to_owned(), needs.to_owned())];
        Published { version: version.to_owned(), family, ..Published::sample("limiter-x") }
    }

    #[test]
    fn one_version_is_returned() {
        let crates = [krate("0.2.0", "^0.2.0"), krate("0.2.0", "=0.2.0")];
        assert_eq!(version(&crates).unwrap(), "0.2.0");
    }

    #[test]
    fn different_versions_and_requirements_are_refused() {
        assert!(version(&[krate("0.2.0", "^0.2.0"), krate("0.1.0", "^0.1.0")]).is_err());
        assert!(version(&[krate("0.2.0", "^0.1.0")]).is_err());
    }

    #[test]
    fn missing_repository_and_date_are_the_owners() {
        let with = |crates: &[Published], changelog| open(crates, changelog).len();
        let here =
            Published { repository: Some("https://x".to_owned()), ..krate("1.0.0", "^1.0.0") };
        let least = with(&[here], "## 1.0.0 - 2026-11-26");
        let bare = krate("1.0.0", "^1.0.0");
        assert_eq!(with(&[bare], "## 1.0.0 - unreleased"), least + 2);
    }
}
