//! `cargo xtask fuzz`: random bytes as input of what must never panic.

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

/// The compiler, pinned as in the workflows.
const NIGHTLY: &str = "nightly-2026-05-20";

/// Runs each target for some seconds.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let seconds = match arguments {
        [] => "60",
        [seconds] if seconds.parse::<u64>().is_ok() => seconds,
        _ => bail!("fuzz takes a number of seconds"),
    };
    let version = cmd!(shell, "cargo fuzz --version").quiet().ignore_stdout().ignore_stderr();
    if version.run().is_err() {
        eprintln!("cargo-fuzz is missing: installing it");
        cmd!(shell, "cargo install --locked cargo-fuzz@0.13.2").quiet().run()?;
    }
    cmd!(shell, "rustup toolchain install {NIGHTLY} --profile minimal").quiet().run()?;
    for target in cmd!(shell, "cargo fuzz list").quiet().read()?.lines() {
        eprintln!("==> {target}");
        // No sanitizer, because there is no unsafe code.
        let options = ["--sanitizer", "none", target, "--", "-timeout=10"];
        cmd!(shell, "cargo +{NIGHTLY} fuzz run {options...} -max_total_time={seconds}")
            .quiet()
            .run()
            .with_context(|| format!("the input is in fuzz/artifacts/{target}"))?;
    }
    Ok(())
}
