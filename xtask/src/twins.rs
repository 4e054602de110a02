//! `cargo xtask twins`: compares each script with its twin, for longer than the tests do.

use anyhow::{Result, ensure};
use xshell::Shell;

use crate::test;

/// A quarter of these run, with 150 calls each on average: more than 100,000 an algorithm.
const CASES: &str = "3000";

const TESTS: [&str; 6] = ["-p", "limiter-redis", "--lib", "twins", "--", "--nocapture"];

/// Runs the twin tests at length. They print the number of calls.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "twins has no options; set PROPTEST_CASES for a test by hand");
    let _cases = shell.push_env("PROPTEST_CASES", CASES);
    test::run(shell, &TESTS.map(str::to_owned))
}
