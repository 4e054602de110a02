//! The nginx that the tests of client addresses run behind.

use std::env;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::debian;

const NAME: &str = "nginx";

/// Returns the path of the one that `LIMITER_NGINX` names, or is installed, or was or can be fetched.
pub(crate) fn path(shell: &Shell) -> Result<PathBuf> {
    if let Some(named) = env::var_os("LIMITER_NGINX") {
        return Ok(path::absolute(named)?);
    }
    if let Some(installed) = limiter_rig::server::on_path(NAME.as_ref()) {
        return Ok(installed);
    }
    let fetched = super::folder(shell)?.join(NAME).join(NAME);
    if fetched.is_file() {
        return Ok(fetched);
    }
    let folder = super::fetch(shell, NAME, |folder| {
        let server = folder.join(NAME);
        debian::fetch(shell, &[NAME], "usr/sbin/nginx", &server)?;
        version(shell, &server).map(drop)
    });
    let folder = folder.context(
        "can't get nginx; install it by hand or set LIMITER_NGINX to the path of a binary",
    )?;
    Ok(folder.join(NAME))
}

/// Returns what the server at `path` says of its version.
pub(super) fn version(shell: &Shell, path: &Path) -> Result<String> {
    Ok(cmd!(shell, "{path} -v").quiet().read_stderr()?)
}
