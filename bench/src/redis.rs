//! Limits through Redis: what the server does for each script, what clients do, and the bytes of a key.

mod clients;
mod memory;
mod scripts;
mod wire;

use std::{
    fs,
    process::{self, Command},
};

use anyhow::{Context, Result, ensure};
use limiter_core::{Algorithm, Policy, Quota, Slots};
use limiter_rig::server::Server;
use std::time::Duration;

pub(crate) use memory::print as print_memory;

use crate::rounds::Effort;

/// The name of all policies.
const NAME: &str = "bench";

/// The deadline of a call, long enough for a busy machine.
const WITHIN: Duration = Duration::from_secs(1);

/// Prints how fast scripts are. Returns the server.
pub(crate) fn print_scripts(effort: &Effort) -> Result<Server> {
    let server = start()?;
    scripts::print(&server, effort)?;
    Ok(server)
}

/// Prints how fast scripts and clients are.
pub(crate) fn print_speed(effort: &Effort) -> Result<()> {
    let server = print_scripts(effort)?;
    server.command(&["FLUSHALL"])?;
    clients::print(&server, effort)
}

/// Starts the server on another processor than this process if possible. Must be called before any thread is started.
fn start() -> Result<Server> {
    let server = Server::start();
    if let Err(error) = pin(&server) {
        eprintln!("server and client are not pinned to processors: {error:#}");
    }
    let info = server.command(&["INFO", "server"])?;
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let version = match field("valkey_version:") {
        valkey if valkey.is_empty() => format!("Redis {}", field("redis_version:")),
        valkey => format!("Valkey {valkey}"),
    };
    println!("Server: {version}, without persistence, on the same machine.\n");
    Ok(server)
}

/// Pins the server to the first processor and this process to the second.
fn pin(server: &Server) -> Result<()> {
    for (processor, process) in [("0", server.id()), ("1", process::id())] {
        let process = process.to_string();
        let output = Command::new("taskset").args(["-a", "-c", "-p", processor, &process]).output();
        let output = output.context("taskset")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns the processor time of a process in seconds, of all its threads.
fn busy(process: u32) -> Result<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += text.split(' ').next().unwrap_or_default().parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

/// Returns the name of a subject, which is 11 bytes long.
fn key(number: usize) -> String {
    format!("user{number:07}")
}

/// The window of policies whose slots have to expire during a run.
const WINDOW: Duration = Duration::from_millis(500);

fn sub_windows(quota: Quota, slots: u32) -> Result<Policy> {
    Ok(Policy::new(NAME, Algorithm::SubWindows(Slots::strict(slots)), quota)?)
}

/// Returns a policy of `number` limits by GCRA.
fn several(number: u64) -> Result<Policy> {
    let limits = (1..=number).map(|limit| {
        let quota = Quota::new(100 * limit, Duration::from_secs(3_600 * limit * limit))?;
        Ok(Policy::gcra(&format!("limit {limit}"), quota))
    });
    Ok(Policy::all_of(NAME, limits.collect::<Result<Vec<_>>>()?)?)
}
