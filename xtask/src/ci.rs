//! `cargo xtask ci`: all checks that a change has to pass.

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::steps::Steps;
use crate::{
    features, licences, models, no_std, package, plots, rust_version, simulate, test, tidy,
};

type Step = (&'static str, fn(&Shell) -> Result<()>);

/// Fast ones first.
const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("tidy", |shell| tidy::run(shell, &[])),
    ("plots", |shell| plots::run(shell, &["--check".to_owned()])),
    ("rust-version", rust_version::check),
    ("licences", licences::check),
    ("package", package::check),
    ("clippy", clippy),
    ("benches", benches),
    ("docs", docs),
    ("no-std", no_std::check),
    ("features", |shell| features::run(shell, &[])),
    ("models", |shell| models::run(shell, &[])),
    ("simulate", simulate::ci),
    ("release", release),
    ("test", |shell| test::run(shell, &[])),
];

/// Runs the steps named, or all of them, up to the first that fails.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let (options, chosen): (Vec<_>, Vec<_>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with('-'));
    ensure!(options.iter().all(|option| *option == "--no-test"), "ci has one option: --no-test");
    let known = |name: &&str| STEPS.iter().any(|(step, _)| step == name);
    ensure!(chosen.iter().all(known), "the steps of ci are {}", names());

    let mut steps = Steps::default();
    let result = STEPS
        .iter()
        .filter(|(name, _)| chosen.is_empty() || chosen.contains(name))
        .filter(|(name, _)| *name != "test" || options.is_empty())
        .try_for_each(|(name, step)| {
            let result = steps.run(name, || step(shell));
            result.with_context(|| format!("{name} failed; repeat it with `cargo xtask ci {name}`"))
        });
    steps.summarize();
    result
}

/// Runs one step.
pub(crate) fn step(shell: &Shell, name: &str) -> Result<()> {
    let step = STEPS.iter().find(|(step, _)| *step == name);
    let (_, run) = step.with_context(|| format!("no step {name}"))?;
    run(shell)
}

/// Returns the names of all steps, for messages.
pub(crate) fn names() -> String {
    let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Packages that are no members of the workspace, so that their dependencies stay out of its tree. Those of `bench/`
/// have a workspace of their own.
pub(crate) const APART: [&str; 5] = ["fuzz", "bench", "bench/fleet", "bench/memory", "bench/layer"];

/// Those that the workflow checks, because their clients of Redis take long to build.
const BY_WORKFLOW: [&str; 2] = ["bench", "bench/fleet"];

fn fmt(shell: &Shell) -> Result<()> {
    cmd!(shell, "cargo fmt --all --check").quiet().run()?;
    for apart in APART {
        cmd!(shell, "cargo fmt --manifest-path {apart}/Cargo.toml --check").quiet().run()?;
    }
    Ok(())
}

// Warnings are denied by arguments, because RUSTFLAGS would rebuild every dependency.
fn clippy(shell: &Shell) -> Result<()> {
    let by_name = test::BY_NAME;
    for targets in [&["--all-targets"][..], &by_name] {
        let all = ["--workspace", "--all-features"];
        cmd!(shell, "cargo clippy {all...} {targets...} -- -D warnings").quiet().run()?;
    }
    Ok(())
}

/// Checks the fuzz targets and the benchmarks without Redis, which use the crates as they are now.
fn benches(shell: &Shell) -> Result<()> {
    for apart in APART.into_iter().filter(|apart| !BY_WORKFLOW.contains(apart)) {
        let check = cmd!(shell, "cargo clippy --manifest-path {apart}/Cargo.toml --all-targets");
        // One directory, in which most dependencies have been checked.
        check.args(["--target-dir", "target", "--locked", "--", "-D", "warnings"]).quiet().run()?;
    }
    Ok(())
}

/// Runs the laws and the extremes in a release build, which has no overflow checks, with four times the random cases that
/// `cargo test` tries.
fn release(shell: &Shell) -> Result<()> {
    let only = ["-p", "limiter-core", "--test", "it", "--release", "--all-features"];
    let names = ["extremes", "laws", "refunds", "conformance", "changes"];
    let tests = cmd!(shell, "cargo test {only...} -- {names...}");
    Ok(tests.env("PROPTEST_CASES", "1024").quiet().run()?)
}

fn docs(shell: &Shell) -> Result<()> {
    let docs = cmd!(shell, "cargo doc --workspace --no-deps --all-features");
    Ok(docs.env("RUSTDOCFLAGS", "-D warnings").quiet().run()?)
}
