//! `cargo xtask test`: all tests, those that need servers, browsers and proxies included.

use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fmt};

use anyhow::{Result, ensure};
use limiter_rig::server::{self, Server};
use xshell::{Shell, cmd};

use crate::servers::{self, RELEASES, Release};
use crate::steps::Steps;
use crate::workspace;

/// The packages whose tests depend on the server.
const SERVER_PACKAGES: [&str; 4] = ["-p", "limiter-rig", "-p", "limiter-doctor"];

/// The tests of limiter-doctor's binary, which `cargo test` leaves out because they need a server. Cargo.toml there has
/// `test = false`, so Cargo takes them by name alone.
pub(crate) const BY_NAME: [&str; 2] = ["--test", "doctor"];

/// That tests failed, with the exit code of `cargo test`.
#[derive(Debug)]
pub(crate) struct Failed(i32);

/// Runs the tests against the server chosen, or those that need one against each of them.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let options: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match options.as_slice() {
        ["--all-servers", rest @ ..] => against_all(shell, rest),
        ["--server", name, rest @ ..] => {
            let server = Release::named(name)?.path(shell)?;
            against(shell, &server, &[], rest)
        }
        ["--server"] => anyhow::bail!("--server needs one of {}", servers::names()),
        rest => against(shell, &choose(shell)?, &[], rest),
    }
}

fn against_all(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let mut steps = Steps::default();
    let result = RELEASES.iter().try_for_each(|release| {
        steps.run(release.name, || {
            against(shell, &release.path(shell)?, &SERVER_PACKAGES, arguments)
        })
    });
    steps.summarize();
    result
}

/// Runs the tests while `binary` runs, all of them also if some fail: those of `packages`, or those that the arguments
/// choose.
fn against(shell: &Shell, binary: &Path, packages: &[&str], arguments: &[&str]) -> Result<()> {
    eprintln!("testing against {}: {}", binary.display(), servers::version(shell, binary)?);
    let server = Server::spawn(binary, &[])?;
    let mut variables =
        vec![("LIMITER_SERVER", binary.into()), ("LIMITER_TEST_URL", server.url().into())];
    // Without these, the tests that need them fail.
    for (variable, path) in [
        // Whichever server is tested, as most can't encrypt.
        ("LIMITER_TLS_SERVER", servers::that_encrypts(shell)),
        ("LIMITER_NGINX", servers::nginx(shell)),
        ("LIMITER_CHROMIUM", servers::chromium(shell)),
        ("LIMITER_PROMETHEUS", servers::prometheus(shell)),
        ("LIMITER_PROMTOOL", servers::promtool(shell)),
    ] {
        match path {
            Ok(path) => variables.push((variable, path.into_os_string())),
            Err(error) => eprintln!("{error:#}"),
        }
    }
    let mut code = 0;
    for selection in selections(packages, arguments, || others(shell))? {
        let test = cmd!(shell, "cargo test --no-fail-fast {selection...} {arguments...}");
        let status = Command::from(test.envs(variables.clone())).status()?;
        code = code.max(status.code().unwrap_or(1));
    }
    ensure!(code == 0, Failed(code));
    Ok(())
}

/// The server at hand, or the first that was or can be fetched.
pub(crate) fn choose(shell: &Shell) -> Result<PathBuf> {
    match server::binary() {
        Ok(path) => return Ok(path::absolute(path)?),
        // A server asked for by name is not replaced by another one.
        Err(error) if env::var_os("LIMITER_SERVER").is_some() => return Err(error.into()),
        Err(_) => {}
    }
    servers::fetch_any(shell)
}

/// Returns what each call of `cargo test` takes: of everything, first what `cargo test` takes by itself, with the features
/// that it has there, so that nothing is built twice if it ran before.
fn selections(
    packages: &[&str],
    arguments: &[&str],
    others: impl FnOnce() -> Result<Vec<String>>,
) -> Result<Vec<Vec<String>>> {
    let chosen = |prefixes: &[&str]| {
        of_cargo(arguments).any(|it| prefixes.iter().any(|prefix| it.starts_with(prefix)))
    };
    let has_packages = !packages.is_empty() || chosen(&["-p", "--package"]);
    let has_targets = chosen(&["--test", "--lib", "--bin", "--doc", "--example", "--bench"]);
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    if has_targets && !has_packages {
        return Ok(vec![owned(&["--workspace", "--all-features"])]);
    }
    if !has_packages {
        return Ok(vec![Vec::new(), owned(&BY_NAME), others()?]);
    }
    let packages = [packages, &["--all-features"]].concat();
    let mut selections = vec![owned(&packages)];
    let mut words = packages.iter().copied().chain(of_cargo(arguments));
    if !has_targets && words.any(|word| word.ends_with("limiter-doctor")) {
        selections.push(owned(&[&packages[..], &BY_NAME].concat()));
    }
    Ok(selections)
}

/// Returns the flags for all packages that `cargo test` does not take by itself.
fn others(shell: &Shell) -> Result<Vec<String>> {
    let mut flags = vec!["--workspace".to_owned(), "--all-features".to_owned()];
    for name in workspace::default_members(shell)? {
        flags.extend(["--exclude".to_owned(), name]);
    }
    Ok(flags)
}

/// The arguments for Cargo, without those for the tests.
fn of_cargo<'a>(arguments: &[&'a str]) -> impl Iterator<Item = &'a str> {
    arguments.iter().copied().take_while(|argument| *argument != "--")
}

impl Failed {
    pub(crate) fn exit_code(&self) -> ExitCode {
        u8::try_from(self.0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("tests failed")
    }
}

impl std::error::Error for Failed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tests_are_three_calls_and_the_doctor_is_called_by_name() {
        let doctor = "--all-features --test doctor";
        for (packages, arguments, expected) in [
            (&[][..], &[][..], &["", "--test doctor", "others"][..]),
            (&[], &["--", "-p", "--lib"], &["", "--test doctor", "others"]),
            (&[], &["--test", "redis"], &["--workspace --all-features"]),
            (&[], &["-p", "limiter-redis", "--", "limiter-doctor"], &["--all-features"]),
            (&[], &["-p", "limiter-doctor", "--", "sessions"], &["--all-features", doctor]),
            (&[], &["-plimiter-doctor", "--test", "doctor"], &["--all-features"]),
            (
                &["-p", "limiter-doctor"],
                &["--", "sessions"],
                &["-p limiter-doctor --all-features", &*format!("-p limiter-doctor {doctor}")],
            ),
        ] {
            let found = selections(packages, arguments, || Ok(vec!["others".to_owned()])).unwrap();
            let found: Vec<String> = found.iter().map(|selection| selection.join(" ")).collect();
            assert_eq!(found, expected, "{packages:?} {arguments:?}");
        }
    }
}
