//! `cargo xtask quick`: what finds most mistakes, within a minute if only the last edit has to be built.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::ci;
use crate::steps::Steps;

/// At most a quarter of the random cases that the step `test` of CI tries.
const CASES: &str = "64";

/// Tests that take seconds and try no random cases. The step `test` of CI runs them.
const SKIPPED: [&str; 1] = ["changes::steps_of_a_nanosecond_around_an_edge_give_nothing"];

/// Runs the step of each name up to the first that fails, and prints their times.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "quick takes no arguments");
    let mut steps = Steps::default();
    let result = ["fmt", "tidy", "clippy"]
        .into_iter()
        .try_for_each(|name| steps.run(name, || ci::step(shell, name)))
        .and_then(|()| steps.run("tests of limiter-core", || tests(shell)));
    steps.summarize();
    result
}

/// Without documentation tests, each of which is linked on its own.
fn tests(shell: &Shell) -> Result<()> {
    let only = ["-p", "limiter-core", "--all-features", "--lib", "--tests", "--quiet"];
    let skip = SKIPPED.iter().flat_map(|name| ["--skip", name]);
    let tests = cmd!(shell, "cargo test {only...} -- {skip...}");
    Ok(tests.env("PROPTEST_CASES", CASES).quiet().run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_that_is_skipped_exists() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/limiter-core/tests/it");
        for name in SKIPPED {
            let (module, test) = name.split_once("::").unwrap();
            let source = std::fs::read_to_string(format!("{folder}/{module}.rs")).unwrap();
            assert!(source.contains(&format!("fn {test}()")), "{name}");
        }
    }
}
