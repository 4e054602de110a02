//! The machine, and what this process takes of it.

use std::{fs, process::Command};

use anyhow::{Context, Result};

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("/proc/self/status has no VmRSS")?.parse::<u64>()? * 1_024)
}

/// Returns what the figures depend on, as a list in Markdown: with the commit of `ours`, and the
/// versions of `peers` in `lock`, the text of a `Cargo.lock`.
pub(crate) fn describe(ours: &str, profile: &str, peers: &[&str], lock: &str) -> String {
    let cpu = read("/proc/cpuinfo");
    let field = |name| {
        let value = cpu.lines().find_map(|line| line.strip_prefix(name)?.split(": ").nth(1));
        value.unwrap_or("unknown").trim().to_owned()
    };
    let processors = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory = read("/proc/meminfo");
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1));
    let gigabytes = total.and_then(|total| total.parse::<u64>().ok()).unwrap_or(0) >> 20;
    let load = read("/proc/loadavg");
    format!(
        "- Date: {}\n- Machine: {}, {processors} processors with {} of cache each, {gigabytes} GB; {} {}\n\
         - Load average at the start: {}\n- Compiler: {}, profile {profile}\n- Crates: {}\n",
        output("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        field("model name"),
        field("cache size"),
        std::env::consts::OS,
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
        output("rustc", &["--version"]),
        versions(ours, peers, lock),
    )
}

/// Returns the versions that this program was built with.
fn versions(ours: &str, peers: &[&str], lock: &str) -> String {
    let version = |name: &&str| {
        let package = format!("name = \"{name}\"\nversion = \"");
        let rest = lock.split_once(&package).map(|(_, rest)| rest);
        let version = rest.and_then(|rest| rest.split('"').next()).unwrap_or("unknown");
        format!("{name} {version}")
    };
    let commit = output("git", &["rev-parse", "--short", "HEAD"]);
    let peers: Vec<String> = peers.iter().map(version).collect();
    format!("{ours} at commit {commit}, {}", peers.join(", "))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}
