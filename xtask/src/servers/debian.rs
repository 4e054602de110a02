//! Servers of Debian and its kin, unpacked from their packages and not installed.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Returns the `redis-server` on the `PATH`.
pub(super) fn installed() -> Option<PathBuf> {
    limiter_rig::server::on_path("redis-server".as_ref())
}

/// Downloads the packages and makes `server` a script that runs the `binary` in them.
pub(super) fn fetch(shell: &Shell, names: &[&str], binary: &str, server: &Path) -> Result<()> {
    let root = server.parent().context("the server has no folder")?;
    let _inside = shell.push_dir(root);
    download(shell, names)?;

    let libraries = libraries(shell)?;
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    download(shell, &libraries)?;
    unpack(shell)?;
    write_script(shell, binary, server)
}

/// Downloads the package and all packages it depends on that the system lacks, and makes `server` a
/// script that runs the `binary` in them.
pub(super) fn fetch_missing(shell: &Shell, name: &str, binary: &str, server: &Path) -> Result<()> {
    let root = server.parent().context("the server has no folder")?;
    let _inside = shell.push_dir(root);
    let packages = with_package_lists(shell, || missing(shell, name))?;
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    download(shell, &packages)?;
    unpack(shell)?;
    write_script(shell, binary, server)
}

/// Downloads one package, without those it depends on, and unpacks it into `folder`.
pub(super) fn fetch_alone(shell: &Shell, name: &str, folder: &Path) -> Result<()> {
    let _inside = shell.push_dir(folder);
    download(shell, &[name])?;
    unpack(shell)
}

/// Returns the packages that an installation of `name` would add.
fn missing(shell: &Shell, name: &str) -> Result<Vec<String>> {
    let plan = cmd!(shell, "apt-get install --simulate --no-install-recommends {name}");
    let plan = plan.quiet().ignore_stderr().read()?;
    let missing = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    // The C library must be the one of the system's dynamic loader.
    Ok(missing.filter(|name| *name != "libc6").map(str::to_owned).collect())
}

/// Unpacks the packages in the current folder.
fn unpack(shell: &Shell) -> Result<()> {
    for package in packages(shell)? {
        cmd!(shell, "dpkg-deb -x {package} .").quiet().run()?;
        shell.remove_path(package)?;
    }
    Ok(())
}

/// Makes `server` a script that runs the `binary` in the packages that were unpacked beside it.
fn write_script(shell: &Shell, binary: &str, server: &Path) -> Result<()> {
    // `exec`, so that the process started is the server itself.
    let script = format!(
        "#!/bin/sh\n\
         root=$(dirname \"$0\")\n\
         libraries=\"$root/usr/lib/{ARCH}-linux-gnu\"\n\
         export LD_LIBRARY_PATH=\"$libraries:$libraries/pulseaudio:$root/lib/{ARCH}-linux-gnu\"\n\
         exec \"$root/{binary}\" \"$@\"\n"
    );
    shell.write_file(server, script)?;
    cmd!(shell, "chmod +x {server}").quiet().run()?;
    Ok(())
}

/// Downloads packages into the current folder, with fresh package lists if the old ones fail.
fn download(shell: &Shell, packages: &[&str]) -> Result<()> {
    // The user that apt would become has no access to the target folder.
    let user = "APT::Sandbox::User=root";
    let download = || cmd!(shell, "apt-get download -qq -o {user} {packages...}").quiet().run();
    with_package_lists(shell, || Ok(download()?))
}

/// Runs `step`, and again with fresh package lists if it fails.
fn with_package_lists<T>(shell: &Shell, step: impl Fn() -> Result<T>) -> Result<T> {
    if let Ok(done) = step() {
        return Ok(done);
    }
    eprintln!("package lists missing or old: apt-get update");
    let update = cmd!(shell, "apt-get update -qq").quiet().run();
    let again = update.map_err(Into::into).and_then(|()| step());
    again.context("needs apt-get, with package lists or as root")
}

/// The libraries that the server is linked to, which a small system lacks.
fn libraries(shell: &Shell) -> Result<Vec<String>> {
    let mut libraries = Vec::new();
    for package in packages(shell)? {
        let depends = cmd!(shell, "dpkg-deb -f {package} Depends").quiet().read()?;
        let names = depends.split(',').filter_map(|depend| depend.split_whitespace().next());
        // The C library must be the one of the system's dynamic loader.
        libraries.extend(
            names.filter(|name| name.starts_with("lib") && *name != "libc6").map(str::to_owned),
        );
    }
    Ok(libraries)
}

fn packages(shell: &Shell) -> Result<Vec<PathBuf>> {
    let mut files = shell.read_dir(".")?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "deb"));
    Ok(files)
}
