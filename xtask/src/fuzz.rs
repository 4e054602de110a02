//! `cargo xtask fuzz`: random bytes as input of what must never panic.

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::steps::Steps;

const TARGETS: [&str; 2] = ["notation", "operations"];

const SECONDS: u64 = 60;

/// Runs the targets named, or all of them, each for some seconds.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let (seconds, chosen) = read(arguments)?;
    install(shell)?;
    let mut steps = Steps::default();
    let result = TARGETS
        .into_iter()
        .filter(|target| chosen.is_empty() || chosen.contains(target))
        .try_for_each(|target| steps.run(target, || fuzz(shell, target, seconds)));
    steps.summarize();
    result
}

/// Returns for how many seconds to run which targets; none named are all of them.
fn read(arguments: &[String]) -> Result<(u64, Vec<&str>)> {
    let (mut seconds, mut chosen) = (SECONDS, Vec::new());
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--seconds" => {
                let number = arguments.next().context("--seconds needs a number")?;
                seconds = number.parse().with_context(|| format!("--seconds {number}"))?;
                ensure!(seconds > 0, "--seconds 0: use at least 1");
            }
            target if TARGETS.contains(&target) => chosen.push(target),
            other => bail!("no target `{other}`; there are {}", TARGETS.join(" and ")),
        }
    }
    Ok((seconds, chosen))
}

fn install(shell: &Shell) -> Result<()> {
    if cmd!(shell, "cargo fuzz --version").quiet().ignore_stdout().ignore_stderr().run().is_ok() {
        return Ok(());
    }
    eprintln!("cargo-fuzz is missing: installing it");
    Ok(cmd!(shell, "cargo install --locked cargo-fuzz").quiet().run()?)
}

// No sanitizer, because there is no unsafe code. Long inputs from the start, because a state takes
// many operations.
fn fuzz(shell: &Shell, target: &str, seconds: u64) -> Result<()> {
    let options = [format!("-max_total_time={seconds}"), "-len_control=0".to_owned()];
    cmd!(shell, "cargo +nightly fuzz run --sanitizer none {target} -- -timeout=10 {options...}")
        .quiet()
        .run()
        .with_context(|| {
            format!(
                "the input is in fuzz/artifacts/{target}; see what it does with \
                 LIMITER_FUZZ_TRACE=1 and the command above"
            )
        })
}
