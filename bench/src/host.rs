//! The server that is measured, and a description of the machine.

use std::{
    fs, io,
    path::PathBuf,
    process::{self, Command},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use limiter_rig::server::{self, Server};

/// A server that this process started, pinned to another processor than this process if possible.
pub(crate) struct Host {
    server: Server,
    binary: PathBuf,
    /// The processors of the server and of this process.
    pinned: Option<(String, String)>,
}

impl Host {
    /// Starts the server and pins it and this process. Must be called before any thread is started.
    pub(crate) fn start() -> Result<Self> {
        let server = Server::start();
        let pinned = pin(&server);
        if let Err(error) = &pinned {
            eprintln!("server and client are not pinned to processors: {error:#}");
        }
        Ok(Self { server, binary: server::binary()?, pinned: pinned.ok() })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    /// Sends a command on a connection of its own, and returns the reply in the form of the protocol.
    pub(crate) fn command(&self, words: &[&str]) -> Result<String> {
        self.server.command(words).with_context(|| format!("{words:.40?}"))
    }

    /// Loads a script, and returns its digest.
    pub(crate) fn load(&self, source: &str) -> Result<String> {
        let reply = self.command(&["SCRIPT", "LOAD", source])?;
        Ok(reply.lines().next_back().unwrap_or_default().to_owned())
    }

    /// Removes all keys, keeps the scripts, and returns when the memory is free.
    pub(crate) fn flush(&self) -> Result<()> {
        // In the background, because millions of keys take longer than a command may.
        self.command(&["FLUSHALL", "ASYNC"])?;
        while self.info("memory", "lazyfree_pending_objects")? != "0" {
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns a field of a section of `INFO`.
    pub(crate) fn info(&self, section: &str, field: &str) -> Result<String> {
        let info = self.command(&["INFO", section])?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.map(str::to_owned).with_context(|| format!("INFO {section}: no {field}"))
    }

    /// Returns the processor time of the server's process in seconds.
    pub(crate) fn busy(&self) -> Result<f64> {
        let seconds = |field| -> Result<f64> { Ok(self.info("cpu", field)?.parse()?) };
        Ok(seconds("used_cpu_sys")? + seconds("used_cpu_user")?)
    }

    /// Prints the server's version, the machine, its load, the compiler, and the pinning.
    pub(crate) fn describe(&self) -> Result<()> {
        let valkey =
            self.info("server", "valkey_version").map(|version| format!("Valkey {version}"));
        let version = match valkey {
            Ok(version) => version,
            Err(_) => format!("Redis {}", self.info("server", "redis_version")?),
        };
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model =
            cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let load = read("/proc/loadavg");
        let date = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output()?.stdout;
        let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output()?.stdout;
        let compiler = Command::new("rustc").arg("--version").output()?.stdout;
        println!("Commit: {}", String::from_utf8_lossy(&commit).trim());
        println!("Date: {}", String::from_utf8_lossy(&date));
        println!(
            "Server: {version}, {}, as `{} --save '' --appendonly no`.",
            self.info("memory", "mem_allocator")?,
            self.binary.file_name().unwrap_or_default().display(),
        );
        println!(
            "Machine: {}, {} processors, {} {}; load average before: {}.",
            model.unwrap_or("an unknown processor"),
            processors(),
            std::env::consts::OS,
            read("/proc/sys/kernel/osrelease").trim(),
            load.split(' ').next().unwrap_or("unknown"),
        );
        println!(
            "Compiler: {}, profile `release`, without LTO.",
            String::from_utf8_lossy(&compiler).trim()
        );
        match &self.pinned {
            Some((server, client)) => println!(
                "Pinned: the server by `taskset -a -c -p {server}`, the client by `taskset -c -p {client}`.\n"
            ),
            None => println!("Neither the server nor the client is pinned to a processor.\n"),
        }
        Ok(())
    }
}

/// Returns the processor time of this process's threads in seconds, or NaN if the system does not
/// report it.
pub(crate) fn own_seconds() -> f64 {
    let nanos = |thread: io::Result<fs::DirEntry>| -> Option<f64> {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return f64::NAN };
    let nanos: Option<Vec<f64>> = threads.map(nanos).collect();
    nanos.map_or(f64::NAN, |nanos| nanos.iter().sum::<f64>() / 1e9)
}

fn processors() -> usize {
    // `available_parallelism` counts only the processors that this process is pinned to.
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let listed = cpu.lines().filter(|line| line.starts_with("processor")).count();
    if listed > 0 { listed } else { thread::available_parallelism().map_or(0, usize::from) }
}

/// Pins the server to the first available processor and this process to the last, and returns both.
fn pin(server: &Server) -> Result<(String, String)> {
    let own = process::id().to_string();
    let available = taskset(&["-c", "-p", &own])?;
    let list = available.rsplit(':').next().unwrap_or_default().trim();
    let mut numbers = list.split([',', '-']);
    let (Some(first), Some(last)) = (numbers.next(), numbers.next_back()) else {
        bail!("only one processor is available");
    };
    taskset(&["-a", "-c", "-p", first, &server.id().to_string()])?;
    taskset(&["-c", "-p", last, &own])?;
    Ok((first.to_owned(), last.to_owned()))
}

fn taskset(arguments: &[&str]) -> Result<String> {
    let output = Command::new("taskset").args(arguments).output().context("taskset")?;
    if !output.status.success() {
        bail!("taskset: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
