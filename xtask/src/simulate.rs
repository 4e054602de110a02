//! `cargo xtask simulate`: fleets of processes and their server in one thread, with faults drawn from seeds.

use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

pub(crate) const OPTIONS: &str = "[--seed N] [--minutes M | --faults N | --count N] [--processes P] [--faults-for MICROS] \
                                  [--without KIND,...] [--wrong NAME|all] [--in-flight] | --ci | \
                                  --record FAULTS";

/// The seeds that found something, which each run of [`ci`] has.
const SEEDS: &str = "crates/limiter-sim/seeds.txt";

/// Where the output of a long run is kept.
const RECORD: &str = "docs/benchmarks/simulation.md";

/// Runs one seed, new seeds for a minute or as long as asked, or wrong variants until each is found.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--ci"] => ci(shell),
        ["--record", faults] => record(shell, faults),
        words => simulate(shell, words),
    }
}

/// How many new seeds [`ci`] runs, in about a minute. The seeds of a day are its date and three digits, so that days share
/// none.
const NEW_SEEDS: u32 = 180;

/// Runs the listed seeds, and those of the day. Which and how many they are does not depend on the commit or the machine,
/// so that they repeat.
pub(crate) fn ci(shell: &Shell) -> Result<()> {
    let date = cmd!(shell, "date -u +%Y%m%d").quiet().read()?;
    let first = format!("{date}000");
    let count = NEW_SEEDS.to_string();
    println!(
        "new seeds of {date} in UTC, which `cargo xtask simulate --seed {first} --count {count}` repeats"
    );
    simulate(shell, &["--seeds", SEEDS, "--seed", &first, "--count", &count])
}

/// Runs seeds from 1 until so many faults have happened, and writes what the program prints to a page.
fn record(shell: &Shell, faults: &str) -> Result<()> {
    ensure!(faults.parse::<u64>().is_ok(), "invalid --record {faults:?}; use a number of faults");
    let date = cmd!(shell, "date -u +%Y-%m-%dT%H:%MZ").quiet().read()?.replace('T', " ");
    let compiler = cmd!(shell, "rustc --version").quiet().read()?;
    let commit = commit(shell)?;
    let options = ["--seed", "1", "--faults", faults, "--sections"];
    let program = PROGRAM;
    let simulate = cmd!(shell, "cargo run --quiet {program...} -- {options...}").quiet();
    let output = simulate.ignore_status().output()?;
    let printed = String::from_utf8(output.stdout)?;
    print!("{printed}");
    ensure!(
        output.status.success(),
        "there are violations, or the program failed; {RECORD} is unchanged"
    );
    let text = format!(
        "# Simulation\n\nPrinted by `cargo xtask simulate --record {faults}`, which runs `simulate {}`.\n\n\
         - Date: {}\n- Machine: {}\n- Compiler: {compiler}, profile `release`\n- Commit: {}\n\n\
         What the faults are, and what the auditor checks: [guarantees](../guarantees.md#the-simulation).\n\n\
         One of four seeds is run once more with requests in flight.\n\n\
         {printed}",
        options.join(" "),
        date.trim_end_matches('Z').to_owned() + " UTC",
        machine(),
        commit.get(..7).unwrap_or(&commit),
    );
    shell.write_file(RECORD, text)?;
    println!("written to {RECORD}");
    Ok(())
}

/// In a release build and as a program of its own, so that the other tasks don't need limiter-redis.
const PROGRAM: [&str; 5] = ["--release", "--package", "limiter-sim", "--bin", "simulate"];

fn simulate(shell: &Shell, options: &[&str]) -> Result<()> {
    let program = PROGRAM;
    Ok(cmd!(shell, "cargo run --quiet {program...} -- {options...}").quiet().run()?)
}

fn commit(shell: &Shell) -> Result<String> {
    let read = cmd!(shell, "git rev-parse HEAD").quiet().read();
    read.context("the page has the commit, and git names none")
}

/// Returns the processor and how many of them there are.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let number = thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {number} processors")
}
