//! Measures rate limit layers side by side.
//!
//! `cargo xtask bench layer [--quick]` runs it, in the root of the repository.

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
    /// So short that most turns are over before the system runs another process.
    turn: Duration,
}

const FULL: Effort = Effort { name: "layer", rounds: 151, turn: Duration::from_millis(4) };

const QUICK: Effort = Effort { name: "layer --quick", rounds: 51, turn: Duration::from_millis(2) };

/// Where a full run is written.
const FILE: &str = "docs/benchmarks/layer.md";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["layer"] => {
            let report = report::measure(&FULL)?;
            print!("{report}");
            fs::write(FILE, report)?;
            eprintln!("wrote {FILE}");
        }
        ["layer", "--quick"] => print!("{}", report::measure(&QUICK)?),
        _ => bail!("unknown arguments {arguments:?}; use layer [--quick]"),
    }
    Ok(())
}
