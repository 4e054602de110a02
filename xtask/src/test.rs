//! `cargo xtask test`: all tests, those that need servers, browsers and proxies included.

use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fmt};

use anyhow::{Result, ensure};
use limiter_rig::server::{self, Server};
use xshell::{Shell, cmd};

use crate::servers::{self, RELEASES, Release};
use crate::steps::Steps;

/// The packages whose tests depend on the server.
const SERVER_PACKAGES: [&str; 6] =
    ["-p", "limiter-redis", "-p", "limiter-rig", "-p", "limiter-doctor"];

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
            against(shell, &server, whole_workspace(rest), rest)
        }
        ["--server"] => anyhow::bail!("--server needs one of {}", servers::names()),
        rest => against(shell, &choose(shell)?, whole_workspace(rest), rest),
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

/// Runs the tests while `binary` runs, all of them also if some fail.
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
    let test = |targets: &[&str]| -> Result<i32> {
        let flags = ["--all-features", "--no-fail-fast"];
        let test = cmd!(shell, "cargo test {packages...} {flags...} {targets...} {arguments...}");
        let status = Command::from(test.envs(variables.clone())).status()?;
        Ok(status.code().unwrap_or(1))
    };
    let mut code = test(&[])?;
    if has_doctor(arguments) {
        code = code.max(test(&BY_NAME)?);
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

/// All packages, unless the arguments choose some.
fn whole_workspace<'a>(arguments: &[&str]) -> &'a [&'a str] {
    if chooses_packages(arguments) { &[] } else { &["--workspace"] }
}

/// Whether the tests of [`BY_NAME`] are among those chosen: their package is, and no other target.
fn has_doctor(arguments: &[&str]) -> bool {
    let targets = ["--test", "--lib", "--bin", "--doc", "--example", "--bench"];
    let of_cargo = || of_cargo(arguments);
    let has_package = !chooses_packages(arguments)
        || of_cargo().any(|argument| argument.ends_with("limiter-doctor"));
    has_package && !of_cargo().any(|argument| targets.iter().any(|it| argument.starts_with(it)))
}

fn chooses_packages(arguments: &[&str]) -> bool {
    of_cargo(arguments)
        .any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
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
    fn the_doctor_is_tested_unless_other_packages_or_targets_are_chosen() {
        for (arguments, expected) in [
            (&[][..], true),
            (&["--", "-p", "--lib"], true),
            (&["-p", "limiter-redis", "-p", "limiter-doctor", "--", "sessions"], true),
            (&["-plimiter-doctor"], true),
            (&["-p", "limiter-redis", "--", "limiter-doctor"], false),
            (&["--lib"], false),
            (&["-p", "limiter-doctor", "--test", "doctor"], false),
        ] {
            assert_eq!(has_doctor(arguments), expected, "{arguments:?}");
        }
    }
}
