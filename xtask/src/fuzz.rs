//! `cargo xtask fuzz`: random bytes as input of what must never panic.

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

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
        cmd!(shell, "cargo install --locked cargo-fuzz").quiet().run()?;
    }
    for target in cmd!(shell, "cargo fuzz list").quiet().read()?.lines() {
        eprintln!("==> {target}");
        // No sanitizer, because there is no unsafe code.
        let options = ["--sanitizer", "none", target, "--", "-timeout=10"];
        cmd!(shell, "cargo +nightly fuzz run {options...} -max_total_time={seconds}")
            .quiet()
            .run()
            .with_context(|| format!("the input is in fuzz/artifacts/{target}"))?;
    }
    Ok(())
}
