//! `cargo xtask test`: all tests, those that need servers, browsers and proxies included.

use std::path::{self, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use limiter_rig::server::{self, Server};
use xshell::{Shell, cmd};

use crate::{servers, workspace};

/// The tests of limiter-doctor's binary, which `cargo test` leaves out because they need a server. Cargo.toml there has
/// `test = false`, so Cargo takes them by name alone.
pub(crate) const BY_NAME: [&str; 2] = ["--test", "doctor"];

/// Runs all tests, or those that the arguments choose, while a server runs: the one named, or any.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let (binary, arguments) = match arguments {
        ["--server", name, rest @ ..] => (servers::named(name)?.path(shell)?, rest),
        rest => (server(shell)?, rest),
    };
    eprintln!("testing against {}", binary.display());
    let server = Server::spawn(&binary, &[])?;
    let mut variables =
        vec![("LIMITER_SERVER", binary.into()), ("LIMITER_TEST_URL", server.url().into())];
    // Without these, the tests that need them fail.
    for tool in servers::TOOLS {
        match tool.path(shell) {
            Ok(path) => variables.push((tool.variable, path.into_os_string())),
            Err(error) => eprintln!("{error:#}"),
        }
    }
    let mut failed = false;
    for selection in selections(arguments, || workspace::default_members(shell))? {
        let test = cmd!(shell, "cargo test --no-fail-fast {selection...} {arguments...}");
        failed |= !Command::from(test.envs(variables.clone())).status()?.success();
    }
    ensure!(!failed, "tests failed");
    Ok(())
}

/// Returns the path of a server to test with: an installed one, or a fetched one.
fn server(shell: &Shell) -> Result<PathBuf> {
    match server::binary() {
        Ok(path) => Ok(path::absolute(path)?),
        Err(_) => servers::any(shell),
    }
}

/// Returns what each call of `cargo test` takes: of everything, first what `cargo test` takes by itself, with the features
/// that it has there, so that nothing is built twice if it ran before.
fn selections(
    arguments: &[&str],
    members: impl FnOnce() -> Result<Vec<String>>,
) -> Result<Vec<Vec<String>>> {
    let of_cargo: Vec<_> = arguments.iter().take_while(|argument| **argument != "--").collect();
    let chosen = |prefixes: &[&str]| {
        of_cargo.iter().any(|it| prefixes.iter().any(|prefix| it.starts_with(prefix)))
    };
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let has_targets = chosen(&["--test", "--lib", "--bin", "--doc", "--example"]);
    match (chosen(&["-p", "--package"]), has_targets) {
        (false, true) => Ok(vec![owned(&["--workspace", "--all-features"])]),
        (false, false) => {
            let mut others = owned(&["--workspace", "--all-features"]);
            others.extend(members()?.into_iter().flat_map(|name| ["--exclude".to_owned(), name]));
            Ok(vec![Vec::new(), owned(&BY_NAME), others])
        }
        (true, false) if of_cargo.iter().any(|it| it.ends_with("limiter-doctor")) => {
            let [first, second] = BY_NAME;
            Ok(vec![owned(&["--all-features"]), owned(&["--all-features", first, second])])
        }
        (true, _) => Ok(vec![owned(&["--all-features"])]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tests_are_three_calls_and_the_doctor_is_called_by_name() {
        let doctor = "--all-features --test doctor";
        let others = "--workspace --all-features --exclude core";
        for (arguments, expected) in [
            (&[][..], &["", "--test doctor", others][..]),
            (&["--", "-p", "--lib"], &["", "--test doctor", others]),
            (&["--test", "redis"], &["--workspace --all-features"]),
            (&["-p", "limiter-redis", "--", "limiter-doctor"], &["--all-features"]),
            (&["-p", "limiter-doctor", "--", "sessions"], &["--all-features", doctor]),
            (&["-plimiter-doctor", "--test", "doctor"], &["--all-features"]),
        ] {
            let found = selections(arguments, || Ok(vec!["core".to_owned()])).unwrap();
            let found: Vec<String> = found.iter().map(|selection| selection.join(" ")).collect();
            assert_eq!(found, expected, "{arguments:?}");
        }
    }
}
