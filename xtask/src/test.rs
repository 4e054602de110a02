//! `cargo xtask test`: all tests, against a real server.

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

/// Runs the tests while `binary` runs.
fn against(shell: &Shell, binary: &Path, packages: &[&str], arguments: &[&str]) -> Result<()> {
    eprintln!("testing against {}: {}", binary.display(), servers::version(shell, binary)?);
    let server = Server::spawn(binary, &[])?;
    let mut tests = cmd!(shell, "cargo test {packages...} --all-features {arguments...}")
        .env("LIMITER_SERVER", binary)
        .env("LIMITER_TEST_URL", server.url());
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
            Ok(path) => tests = tests.env(variable, path),
            Err(error) => eprintln!("{error:#}"),
        }
    }
    let status = Command::from(tests).status()?;
    ensure!(status.success(), Failed(status.code().unwrap_or(1)));
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
    let chosen = arguments.iter().take_while(|argument| **argument != "--");
    let mut chosen =
        chosen.filter(|argument| argument.starts_with("-p") || argument.starts_with("--package"));
    if chosen.next().is_some() { &[] } else { &["--workspace"] }
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
