//! The step `no-std`: the core can be linked without the standard library.

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::workspace;

/// A crate with a panic handler of its own can't be compiled if anything below it links `std`,
/// which has one too. Unlike a build for bare metal, that needs no further target installed.
const PROBE: &str = "
#![no_std]
extern crate limiter_core;
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
";

/// Builds the core with all features that need no `std`, and the probe on top of it.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo build -p limiter-core --no-default-features --features serde")
        .quiet()
        .run()?;

    let built = workspace::target_folder(shell)?.join("debug");
    let (core, dependencies) = (built.join("liblimiter_core.rlib"), built.join("deps"));
    let folder = shell.create_temp_dir()?;
    shell.write_file(folder.path().join("probe.rs"), PROBE)?;
    let _inside = shell.push_dir(folder.path());
    cmd!(shell, "rustc --edition 2024 --crate-type lib --emit metadata probe.rs")
        .arg("--extern")
        .arg(format!("limiter_core={}", core.display()))
        .arg("-L")
        .arg(format!("dependency={}", dependencies.display()))
        .quiet()
        .run()
        .context("limiter-core without `std` links the standard library")?;
    eprintln!("proved by a crate on top that brings its own panic handler");
    Ok(())
}
