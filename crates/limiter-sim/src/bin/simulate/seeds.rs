//! Which seeds are run, one after the other, by all threads together.

use std::{
    fs,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

/// Seeds: those of a list, and then new ones until a goal is reached.
pub(super) struct Seeds {
    listed: Vec<u64>,
    first: u64,
    goal: Goal,
    taken: AtomicUsize,
    /// When the first new seed was taken.
    begin: OnceLock<Instant>,
}

/// Until when new seeds are run.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    Minutes(f64),
    /// So many new seeds, whatever they do.
    Count(u64),
}

impl Seeds {
    pub(super) fn new(listed: Vec<u64>, first: u64, goal: Goal) -> Self {
        Self { listed, first, goal, taken: AtomicUsize::new(0), begin: OnceLock::new() }
    }

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

    /// Returns the next seed, `None` if the goal is reached.
    pub(super) fn next(&self) -> Option<u64> {
        let taken = self.taken.fetch_add(1, Relaxed);
        if let Some(seed) = self.listed.get(taken) {
            return Some(*seed);
        }
        let begin = self.begin.get_or_init(Instant::now);
        let new = (taken - self.listed.len()) as u64;
        let is_reached = match self.goal {
            Goal::Minutes(minutes) => begin.elapsed() >= Duration::from_secs_f64(60.0 * minutes),
            Goal::Count(count) => new >= count,
        };
        (!is_reached).then(|| self.first.wrapping_add(new))
    }
}

/// Returns a seed that was hardly run before.
pub(super) fn new_seed() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(1)
}
