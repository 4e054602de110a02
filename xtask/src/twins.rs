//! `cargo xtask twins`: each script and its twin side by side, for longer than the tests do.

use anyhow::{Result, ensure};
use xshell::Shell;

use crate::test;

/// A quarter of these are tried with 400 calls each on average: more than 100,000 an algorithm.
const CASES: &str = "1200";

const TESTS: [&str; 6] = ["-p", "limiter-redis", "--lib", "twins", "--", "--nocapture"];

/// Runs the twin suites at length, and prints how many calls there were in how long.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "twins has no options; set PROPTEST_CASES for a test by hand");
    let _cases = shell.push_env("PROPTEST_CASES", CASES);
    test::run(shell, &TESTS.map(str::to_owned))
}
