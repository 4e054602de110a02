//! `cargo xtask bench`: measures, and writes pages with the date, the machine, the compiler and the commit.

use std::fs;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::servers;
use crate::workspace::target_folder;

/// A page, the section of `bench/` that prints it, and the server that it needs, if any.
struct Page {
    name: &'static str,
    file: &'static str,
    title: &'static str,
    profile: &'static str,
    features: &'static str,
    section: &'static str,
    server: Option<&'static str>,
}

const PAGES: [Page; 12] = [
    page("memory", "BENCHMARKS.md", "Limiters in memory"),
    // Users compile with either profile, and LTO helps some rows of ours less than the peers.
    Page {
        name: "memory-lto",
        profile: "lto",
        ..page("checks", "docs/benchmarks/memory-lto.md", "Checks in memory")
    },
    page("layer", "docs/benchmarks/layer.md", "Layers"),
    Page {
        name: "layer-lto",
        profile: "lto",
        ..page("layer", "docs/benchmarks/layer-lto.md", "Layers")
    },
    Page {
        name: "layer-metrics",
        features: "metrics",
        ..page("layer", "docs/benchmarks/layer-metrics.md", "Layers, with metrics but no recorder")
    },
    page("several", "docs/benchmarks/several.md", "Several limits in one call"),
    page("flood", "docs/benchmarks/flood.md", "A flood of fresh keys"),
    page("algorithms", "docs/benchmarks/algorithms.md", "Algorithms"),
    Page {
        name: "redis-7.0",
        server: Some("redis-7.0"),
        ..page("scripts", "docs/benchmarks/redis-7.0.md", "Scripts on Redis 7.0")
    },
    Page {
        name: "redis-8.2",
        server: Some("redis-8.2"),
        ..page("redis", "docs/benchmarks/redis-8.2.md", "Redis 8.2")
    },
    Page {
        server: Some("redis-7.0"),
        ..page("redis-memory", "docs/benchmarks/redis-memory.md", "Memory of a key in Redis")
    },
    Page { server: Some("redis-7.0"), ..page("fleet", "docs/benchmarks/fleet.md", "Fleets") },
];

const fn page(name: &'static str, file: &'static str, title: &'static str) -> Page {
    Page { name, file, title, profile: "release", features: "", section: name, server: None }
}

/// The crates that pages compare with.
const PEERS: [&str; 9] = [
    "axum-governor",
    "governor",
    "leaky-bucket",
    "limitador",
    "rate-net",
    "ratelimit",
    "throttled",
    "tower-rate-limit-fred",
    "tower_governor",
];

/// Writes the pages named, or with `--quick` prints figures of short rounds.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let (names, quick): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| **argument != "--quick");
    let pages: Vec<&Page> = PAGES.iter().filter(|page| names.contains(&page.name)).collect();
    ensure!(pages.len() == names.len() && !names.is_empty(), "the pages are {}", self::names());
    // Beside the main tree's own output: the peers enable features that it does without.
    let target = target_folder(shell)?.join("bench");
    // Before a page is written, which makes the tree dirty.
    let commit = cmd!(shell, "git describe --always --dirty").quiet().read()?;
    for page in pages {
        let Page { name, file, profile, features, section, server, .. } = page;
        eprintln!("==> {name}");
        let cargo =
            ["--profile", profile, "--features", features, "--manifest-path", "bench/Cargo.toml"];
        let bench = cmd!(shell, "cargo run --quiet {cargo...} --target-dir {target} -- {section}");
        let bench = bench.args(&quick);
        let bench = match server {
            Some(server) => bench.env("LIMITER_SERVER", servers::named(server)?.path(shell)?),
            None => bench,
        };
        let printed = bench.quiet().read()?;
        println!("{printed}");
        if quick.is_empty() {
            shell.write_file(
                file,
                format!("{}{printed}\n", head(shell, page, &commit, &printed)?),
            )?;
        }
    }
    Ok(())
}

/// Returns the names of all pages, for messages.
pub(crate) fn names() -> String {
    PAGES.iter().map(|page| page.name).collect::<Vec<_>>().join(", ")
}

fn head(shell: &Shell, page: &Page, commit: &str, printed: &str) -> Result<String> {
    let Page { name, title, profile, .. } = page;
    let date = cmd!(shell, "date -u").arg("+%Y-%m-%d %H:%M UTC").quiet().read()?;
    let compiler = cmd!(shell, "rustc --version").quiet().read()?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let processors = std::thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let lock = shell.read_file("bench/Cargo.lock")?;
    let peers = PEERS.iter().filter(|peer| printed.contains(**peer)).map(|peer| {
        let version = lock.split_once(&format!("name = \"{peer}\"\nversion = \""));
        let version = version.and_then(|(_, rest)| rest.split('"').next());
        Ok(format!("{peer} {}", version.with_context(|| format!("no {peer} in bench/Cargo.lock"))?))
    });
    let peers = match peers.collect::<Result<Vec<_>>>()?.as_slice() {
        [] => String::new(),
        peers => format!(" Peers: {}.", peers.join(", ")),
    };
    Ok(format!(
        "# {title}\n\nWritten by `cargo xtask bench {name}` at commit {commit}, {date}. Machine: {model}, {processors} processors, \
         load average before: {load}. Compiler: {compiler}, profile `{profile}`.{peers}\n\n"
    ))
}
