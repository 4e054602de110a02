//! Measures rate limit layers side by side.
//!
//! `cargo xtask bench layer [--quick]` runs it, in the root of the repository, once in each profile.

#[expect(dead_code, reason = "shared with the bench in memory")]
#[path = "../../memory/src/host.rs"]
mod host;
mod measure;
mod report;
#[expect(dead_code, reason = "shared with the bench through Redis")]
#[path = "../../src/table.rs"]
mod table;

use std::{env, fs, time::Duration};

use anyhow::{Result, bail};

/// How much to measure, and for how long.
struct Effort {
    name: &'static str,
    rounds: usize,
    is_full: bool,
    /// So short that most turns are over before the system runs another process.
    turn: Duration,
}

const FULL: Effort =
    Effort { name: "layer", is_full: true, rounds: 151, turn: Duration::from_millis(4) };

const QUICK: Effort =
    Effort { name: "layer --quick", is_full: false, rounds: 51, turn: Duration::from_millis(2) };

/// How the program was compiled.
#[derive(Clone, Copy)]
struct Profile {
    name: &'static str,
    /// Where a full run is written.
    file: &'static str,
    /// Its place among a target's ratios.
    index: usize,
}

const RELEASE: Profile = Profile { name: "`release`", file: "docs/benchmarks/layer.md", index: 0 };
const LTO: Profile = Profile {
    name: "`lto`: thin LTO, one codegen unit",
    file: "docs/benchmarks/layer-lto.md",
    index: 1,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (profile, effort) = match arguments.as_slice() {
        ["release", "layer"] => (RELEASE, FULL),
        ["release", "layer", "--quick"] => (RELEASE, QUICK),
        ["lto", "layer"] => (LTO, FULL),
        ["lto", "layer", "--quick"] => (LTO, QUICK),
        _ => bail!("unknown arguments {arguments:?}; use release|lto layer [--quick]"),
    };
    let report = report::measure(&effort, profile)?;
    print!("{report}");
    if effort.is_full {
        fs::write(profile.file, report)?;
        eprintln!("wrote {}", profile.file);
    }
    Ok(())
}
