//! Limits in memory beside their peers: time, bytes a key, floods, requests in flight, and several limits in one call.
//!
//! `cargo xtask bench` runs it, in the root of the repository, with `memory`, `flood`, `in-flight` or `several`.

mod bytes;
mod cells;
mod flood;
mod host;
mod in_flight;
mod keys;
mod logs;
mod measure;
mod operations;
mod picture;
mod report;
mod several;
mod subjects;
#[expect(dead_code, reason = "shared with the bench through Redis")]
#[path = "../../src/table.rs"]
mod table;

use std::{env, time::Duration};

use anyhow::{Result, bail};

/// How much to measure, and for how long.
struct Effort {
    name: &'static str,
    rounds: usize,
    turn: Duration,
    /// The numbers of keys.
    sizes: &'static [usize],
    /// How many fresh keys a turn of a flood brings.
    flood: usize,
    /// How many keys are in a limiter when the bytes of a key are counted.
    bytes: usize,
}

const FULL: Effort = Effort {
    name: "memory",
    rounds: 9,
    turn: Duration::from_millis(80),
    sizes: &[1, 10_000, 1_000_000, 10_000_000],
    flood: 500_000,
    bytes: 1_000_000,
};

const QUICK: Effort = Effort {
    name: "memory --quick",
    rounds: 3,
    turn: Duration::from_millis(40),
    sizes: &[1, 10_000, 1_000_000],
    flood: 200_000,
    bytes: 1_000_000,
};

/// How the program was compiled, and what it must reach.
struct Profile {
    name: &'static str,
    file: &'static str,
    /// The most of governor's time that a check of a string key takes.
    keyed: f64,
}

const RELEASE: Profile = Profile { name: "`release`", file: "BENCHMARKS.md", keyed: 0.60 };

const LTO: Profile = Profile {
    name: "`release` with `lto = \"fat\"` and one codegen unit",
    file: "docs/benchmarks/memory-lto.md",
    keyed: 0.50,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["release", "memory"] => report::write(&FULL, &RELEASE),
        ["release", "memory", "--quick"] => report::print(&QUICK, &RELEASE),
        ["lto", "memory"] => report::write(&FULL, &LTO),
        ["lto", "memory", "--quick"] => report::print(&QUICK, &LTO),
        ["release" | "lto", "in-flight"] => {
            println!("{}\n\n{}", in_flight::CAPTION, in_flight::table(&in_flight::measure(&FULL)));
            Ok(())
        }
        ["release", "several"] => several::run(&FULL, &RELEASE),
        ["release", "flood"] => flood::run(flood::KEYS),
        ["release", "flood", "--keys", keys] => flood::run(keys.parse()?),
        // Only for this program itself: a process of its own for each limiter whose bytes are counted.
        ["bytes", limiter, keys] => bytes::print(limiter, keys.parse()?),
        _ => bail!("{arguments:?}: use memory [--quick], in-flight, several or flood [--keys N]"),
    }
}
