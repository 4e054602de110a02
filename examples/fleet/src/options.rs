//! The options of the command line.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

pub(crate) const USAGE: &str = "\
usage: example-fleet [OPTIONS]
  --processes N   how many processes share the limit, 4 by default
  --rate N        the limit: permits a second, and the burst, 20000 by default
  --seconds N     how long the processes check, 10 by default
  --load X        how many times the rate they try together, 2.0 by default
  --no-leases     ask the server for each check";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) processes: u32,
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    pub(crate) load: f64,
    pub(crate) leases: bool,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self { processes: 4, rate: 20_000, seconds: 10, load: 2.0, leases: true };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--processes" => options.processes = value(word, words.next())?,
                "--rate" => options.rate = value(word, words.next())?,
                "--seconds" => options.seconds = value(word, words.next())?,
                "--load" => options.load = value(word, words.next())?,
                "--no-leases" => options.leases = false,
                _ => bail!("unknown option {word:?}\n{USAGE}"),
            }
        }
        let Self { processes, rate, seconds, load, .. } = options;
        ensure!((1..=100).contains(&processes), "--processes is {processes}: use 1 to 100");
        ensure!((1..=1_000_000).contains(&rate), "--rate is {rate}: use 1 to 1000000");
        ensure!((1..=3_600).contains(&seconds), "--seconds is {seconds}: use 1 to 3600");
        ensure!((0.01..=100.0).contains(&load), "--load is {load}: use 0.01 to 100");
        Ok(options)
    }
}

fn value<T: FromStr>(option: &str, word: Option<&String>) -> Result<T> {
    let word = word.with_context(|| format!("{option} needs a value\n{USAGE}"))?;
    let value = word.parse().ok();
    value.with_context(|| format!("invalid {option} {word:?}\n{USAGE}"))
}
