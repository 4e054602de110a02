//! Measures the limiter beside its peers, and prints sections of a page: `cargo xtask bench` runs it.

mod algorithms;
mod by_hand;
mod bytes;
mod fleet;
mod flood;
mod in_flight;
mod layer;
mod memory;
mod redis;
mod rounds;
mod several;

use std::{env, time::Duration};

use anyhow::{Result, bail};
use rounds::Effort;

const FULL: Effort = Effort { rounds: 31, turn: Duration::from_millis(20), keys: 1_000_000 };
const QUICK: Effort = Effort { rounds: 5, turn: Duration::from_millis(5), keys: 100_000 };

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_quick = words.last() == Some(&"--quick");
    words.truncate(words.len() - usize::from(is_quick));
    let effort = if is_quick { QUICK } else { FULL };
    match words.as_slice() {
        ["checks"] => memory::print(&effort),
        ["memory"] => {
            memory::print(&effort)?;
            memory::print_operations(&effort)?;
            in_flight::print(&effort)?;
            bytes::print(&effort)
        }
        ["several"] => several::print(&effort),
        ["flood"] => flood::print(&effort),
        ["layer"] => layer::print(&effort),
        ["algorithms"] => algorithms::print(&effort),
        ["scripts"] => redis::print_scripts(&effort).map(drop),
        ["redis"] => redis::print_speed(&effort),
        ["redis-memory"] => redis::print_memory(),
        ["fleet"] => fleet::print(&effort),
        // Processes of these.
        ["bytes", what, keys] => bytes::child(what, keys.parse()?),
        ["process", job @ ..] => fleet::process(job),
        _ => bail!("unknown arguments {words:?}; `cargo xtask bench` has the pages"),
    }
}
