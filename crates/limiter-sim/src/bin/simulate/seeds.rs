//! Which seeds are run.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

/// Reads the seeds of a file: one a line, and a comment behind `#`. A line that begins with `fails` is a seed that is
/// known to fail. It is printed, and not returned.
pub(super) fn listed_in(path: &str) -> Result<Vec<u64>> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read {path}"))?;
    let mut seeds = Vec::new();
    for line in text.lines() {
        let seed = line.split('#').next().unwrap_or_default().trim();
        if seed.is_empty() {
            continue;
        }
        let fails = seed.strip_prefix("fails ");
        let number = fails.unwrap_or(seed).trim().parse();
        let number =
            number.with_context(|| format!("invalid seed {seed:?} in {path}; use a number"))?;
        match fails {
            Some(_) => println!("not run, because {path} has it: {line}"),
            None => seeds.push(number),
        }
    }
    Ok(seeds)
}

/// Returns a seed that was hardly run before.
pub(super) fn new_seed() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(1)
}
