//! The browser that reads what the layer's responses expose to pages from other origins.

use std::env;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::debian;

const NAME: &str = "chromium";

/// Returns the path of the one that `LIMITER_CHROMIUM` names, or is installed, or was or can be
/// fetched.
pub(crate) fn path(shell: &Shell) -> Result<PathBuf> {
    if let Some(named) = env::var_os("LIMITER_CHROMIUM") {
        return Ok(path::absolute(named)?);
    }
    let installed = [NAME, "google-chrome"];
    let installed =
        installed.into_iter().find_map(|name| limiter_rig::server::on_path(name.as_ref()));
    if let Some(installed) = installed {
        return Ok(installed);
    }
    let fetched = super::folder(shell)?.join(NAME).join(NAME);
    if fetched.is_file() {
        return Ok(fetched);
    }
    let folder = super::fetch(shell, NAME, |folder| {
        let browser = folder.join(NAME);
        debian::fetch_missing(shell, NAME, "usr/lib/chromium/chromium", &browser)?;
        version(shell, &browser).map(drop)
    });
    let folder = folder.context(
        "can't get chromium; install it by hand or set LIMITER_CHROMIUM to the path of a binary",
    )?;
    Ok(folder.join(NAME))
}

/// Returns what the browser at `path` reports as its version.
pub(super) fn version(shell: &Shell, path: &Path) -> Result<String> {
    Ok(cmd!(shell, "{path} --version").quiet().ignore_stderr().read()?)
}
