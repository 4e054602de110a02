//! `cargo xtask simulate`: fleets of processes and their server in one thread, with faults drawn from seeds.

use anyhow::Result;
use xshell::{Shell, cmd};

/// The seeds that found something, which each run of CI has.
const SEEDS: &str = "crates/limiter-sim/seeds.txt";

/// How many new seeds CI runs, in about a minute. The seeds of a day are its date and three digits, so that days share
/// none.
const NEW_SEEDS: &str = "180";

/// Passes the arguments to the program, which is built for release. `--ci` stands for the listed seeds and those of the
/// day: which and how many they are does not depend on the commit or the machine, so that they repeat.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let first = format!("{}000", cmd!(shell, "date -u +%Y%m%d").quiet().read()?);
    let day = ["--seed", &first, "--count", NEW_SEEDS];
    let of_ci = [&["--seeds", SEEDS], &day[..]].concat();
    let options = if arguments == ["--ci"] {
        println!("`cargo xtask simulate {}` repeats the new seeds", day.join(" "));
        &of_ci
    } else {
        arguments
    };
    let program = ["--release", "--package", "limiter-sim", "--bin", "simulate"];
    Ok(cmd!(shell, "cargo run --quiet {program...} -- {options...}").quiet().run()?)
}
