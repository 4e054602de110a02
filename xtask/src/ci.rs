//! `cargo xtask ci`: all checks that a change has to pass.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace::{published, target_folder};
use crate::{simulate, test, tidy};

type Step = (&'static str, fn(&Shell) -> Result<()>);

/// Fast ones first.
const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("tidy", |shell| tidy::run(shell, &[])),
    ("package", package),
    ("clippy", clippy),
    ("apart", apart),
    ("docs", docs),
    ("no-std", no_std),
    ("features", features),
    ("models", models),
    ("simulate", |shell| simulate::run(shell, &["--ci"])),
    ("release", release),
    ("test", |shell| test::run(shell, &[])),
];

/// Packages that are no members of the workspace, so that their dependencies stay out of its tree.
const APART: [&str; 2] = ["fuzz", "bench"];

/// Runs the steps named, or all of them, up to the first that fails, and prints their times.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let no_test = arguments == ["--no-test"];
    let chosen = if no_test { &[] } else { arguments };
    let known = |name: &&str| STEPS.iter().any(|(step, _)| step == name);
    ensure!(chosen.iter().all(known), "the steps of ci are {}", names());
    let is_chosen = |name: &str| match chosen {
        [] => !no_test || name != "test",
        chosen => chosen.contains(&name),
    };
    let mut times = String::new();
    let result = STEPS.iter().filter(|(name, _)| is_chosen(name)).try_for_each(|(name, step)| {
        eprintln!("==> {name}");
        let begin = Instant::now();
        let result = step(shell);
        times += &format!("{:>7.1} s  {name}\n", begin.elapsed().as_secs_f64());
        result.with_context(|| format!("{name} failed; repeat it with `cargo xtask ci {name}`"))
    });
    eprint!("==> times\n{times}");
    result
}

/// Returns the names of all steps, for messages.
pub(crate) fn names() -> String {
    STEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn fmt(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo fmt --all --check").quiet().run()?;
    for apart in APART {
        cmd!(shell, "cargo fmt --manifest-path {apart}/Cargo.toml --check").quiet().run()?;
    }
    Ok(())
}

/// Packages the published crates, without building the packages: that takes minutes.
fn package(shell: &Shell) -> Result<()> {
    let options = ["--workspace", "--dry-run", "--no-verify", "--allow-dirty"];
    Ok(cmd!(shell, "cargo publish --quiet {options...}").quiet().run()?)
}

// Warnings are denied by arguments, because RUSTFLAGS would rebuild every dependency.
fn clippy(shell: &Shell) -> Result<()> {
    for targets in [&["--all-targets"][..], &test::BY_NAME] {
        let all = ["--workspace", "--all-features"];
        cmd!(shell, "cargo clippy {all...} {targets...} -- -D warnings").quiet().run()?;
    }
    Ok(())
}

fn apart(shell: &Shell) -> Result<()> {
    for apart in APART {
        let check = cmd!(shell, "cargo clippy --manifest-path {apart}/Cargo.toml --all-targets");
        // One directory, in which most dependencies have been checked.
        check.args(["--target-dir", "target", "--locked", "--", "-D", "warnings"]).quiet().run()?;
    }
    Ok(())
}

/// First with private items, then without them: only then does a public item that links to a private one fail.
fn docs(shell: &Shell) -> Result<()> {
    for private in [&["--document-private-items"][..], &[]] {
        let docs = cmd!(shell, "cargo doc --workspace --no-deps --all-features {private...}");
        docs.env("RUSTDOCFLAGS", "-D warnings").quiet().run()?;
    }
    Ok(())
}

/// A crate with a panic handler of its own can't be compiled if anything below it links `std`,
/// which has one too. Unlike a build for bare metal, that needs no further target installed.
const PROBE: &str = "
#![no_std]
extern crate limiter_core;
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
";

/// Builds the core with all features that need no `std`, and the probe on top of it.
fn no_std(shell: &Shell) -> Result<()> {
    let features = ["--no-default-features", "--features", "serde"];
    cmd!(shell, "cargo build -p limiter-core {features...}").quiet().run()?;
    let built = target_folder(shell)?.join("debug");
    let core = format!("limiter_core={}", built.join("liblimiter_core.rlib").display());
    let dependencies = format!("dependency={}", built.join("deps").display());
    let folder = shell.create_temp_dir()?;
    let _inside = shell.push_dir(folder.path());
    shell.write_file("probe.rs", PROBE)?;
    let options = ["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"];
    cmd!(shell, "rustc {options...} probe.rs --extern {core} -L {dependencies}")
        .quiet()
        .run()
        .context("limiter-core without `std` links the standard library")
}

/// Checks each published crate with no feature, with each single one, and with all.
fn features(shell: &Shell) -> Result<()> {
    for (name, features) in published(shell)? {
        let single = features.iter().map(|feature| vec!["--no-default-features", "-F", feature]);
        let whole = [vec!["--no-default-features"], vec!["--all-features"]];
        for flags in whole.into_iter().chain(single) {
            eprintln!("{name} {}", flags.join(" "));
            // Clippy and not `cargo check`: only it can deny warnings without a rebuild.
            let check = cmd!(shell, "cargo clippy --quiet -p {name} {flags...} -- -D warnings");
            check.quiet().run()?;
        }
    }
    Ok(())
}

/// Runs the models of what threads share, in every interleaving.
fn models(shell: &Shell) -> Result<()> {
    // Built apart: the flag is for all dependencies, and would have them built anew each time.
    let folder = target_folder(shell)?.join("loom");
    let models = cmd!(shell, "cargo test -p limiter-core --test models --target-dir {folder}");
    Ok(models.env("RUSTFLAGS", "--cfg loom").env("RUST_BACKTRACE", "0").quiet().run()?)
}

/// Runs the laws and the extremes in a release build, which has no overflow checks, with four times the random cases that
/// `cargo test` tries.
fn release(shell: &Shell) -> Result<()> {
    let only = ["-p", "limiter-core", "--test", "it", "--release", "--all-features"];
    let names = ["extremes", "laws", "refunds", "conformance", "changes"];
    let tests = cmd!(shell, "cargo test {only...} -- {names...}");
    Ok(tests.env("PROPTEST_CASES", "1024").quiet().run()?)
}
