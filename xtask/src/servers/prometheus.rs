//! The Prometheus that scrapes an example, and its `promtool`, which tests alerts.

use std::env;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::debian;

const NAME: &str = "prometheus";

/// Returns the path of the one that `LIMITER_PROMETHEUS` names, or is installed, or was or can be
/// fetched.
pub(crate) fn path(shell: &Shell) -> Result<PathBuf> {
    binary(shell, NAME, "LIMITER_PROMETHEUS")
}

/// Returns the path of the one that `LIMITER_PROMTOOL` names, or is installed, or was or can be fetched.
pub(crate) fn promtool(shell: &Shell) -> Result<PathBuf> {
    binary(shell, "promtool", "LIMITER_PROMTOOL")
}

fn binary(shell: &Shell, name: &str, variable: &str) -> Result<PathBuf> {
    if let Some(named) = env::var_os(variable) {
        return Ok(path::absolute(named)?);
    }
    if let Some(installed) = limiter_rig::server::on_path(name.as_ref()) {
        return Ok(installed);
    }
    let within = Path::new("usr/bin").join(name);
    let fetched = super::folder(shell)?.join(NAME).join(&within);
    if fetched.is_file() {
        return Ok(fetched);
    }
    let folder = super::fetch(shell, NAME, |folder| {
        // 19 MB. The packages it depends on are for its pages.
        debian::fetch_alone(shell, NAME, folder)?;
        version(shell, &folder.join(&within)).map(drop)
    });
    let folder = folder.with_context(|| {
        format!("can't get {name}; install it by hand or set {variable} to the path of a binary")
    })?;
    Ok(folder.join(within))
}

/// Returns the first line of what the binary at `path` reports as its version.
pub(super) fn version(shell: &Shell, path: &Path) -> Result<String> {
    let version = cmd!(shell, "{path} --version").quiet().read()?;
    Ok(version.lines().next().unwrap_or_default().to_owned())
}
