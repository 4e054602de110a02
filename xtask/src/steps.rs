//! Progress of a task made of long steps.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps done so far, with the time each took.
#[derive(Default)]
pub(crate) struct Steps(Vec<(String, Duration, bool)>);

impl Steps {
    /// Announces a step and does it.
    pub(crate) fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("==> {name}");
        let begin = Instant::now();
        let result = step();
        self.0.push((name.to_owned(), begin.elapsed(), result.is_ok()));
        result
    }

    /// Prints each step with its seconds.
    pub(crate) fn summarize(&self) {
        eprintln!("==> summary");
        for (name, time, ok) in &self.0 {
            let end = if *ok { "" } else { "  FAILED" };
            eprintln!("{:>7.1} s  {name}{end}", time.as_secs_f64());
        }
    }
}
