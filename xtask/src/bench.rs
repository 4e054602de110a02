//! `cargo xtask bench`: how fast limits in memory, through Redis and in a layer are, and how much
//! memory they take.

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::{servers, test, workspace};

/// Runs one of the packages in `bench/`.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    match arguments {
        ["several" | "flood"] | ["flood", "--keys", _] => {
            run_package(shell, "memory", "release", &[&["release"], arguments].concat())
        }
        [name @ ("memory" | "layer")] | [name @ ("memory" | "layer"), "--quick"] => {
            let lto = if *name == "layer" { "thin-lto" } else { "lto" };
            // Users compile with either.
            for (profile, report) in [("release", "release"), (lto, "lto")] {
                let words = [&[report], arguments].concat();
                run_package(shell, name, profile, &words)?;
            }
            Ok(())
        }
        ["in-flight"] => {
            for profile in ["release", "lto"] {
                run_package(shell, "memory", profile, &[profile, "in-flight"])?;
            }
            Ok(())
        }
        ["fleet"] | ["fleet", "--quick"] | ["fleet", "--audit", _] => {
            let _server = shell.push_env("LIMITER_SERVER", test::server(shell)?);
            run_package(shell, "fleet", "release", arguments)
        }
        _ => run_through_redis(shell, arguments),
    }
}

/// Runs the package in the folder `name` of `bench/`, which writes its report itself.
fn run_package(shell: &Shell, name: &str, profile: &str, arguments: &[&str]) -> Result<()> {
    let target = workspace::target_folder(shell)?.join("bench");
    let manifest = format!("bench/{name}/Cargo.toml");
    let options = ["--profile", profile, "--manifest-path", &manifest];
    // `run` builds only the program that it runs, which may run the others.
    cmd!(shell, "cargo build {options...} --target-dir {target}").quiet().run()?;
    cmd!(shell, "cargo run {options...} --target-dir {target}")
        .arg("--")
        .args(arguments)
        .quiet()
        .run()?;
    Ok(())
}

/// Runs the package in `bench/`, on the server named or at hand. A full run on a server that is named
/// writes its report.
///
/// With `--scripts`, it measures only the scripts whose names contain one of the texts that follow, and with
/// `--lists` only lists of demands.
fn run_through_redis(shell: &Shell, arguments: &[&str]) -> Result<()> {
    let mut passed_on = Vec::new();
    let (mut server, mut report) = (None, None);
    let mut arguments = arguments.iter().copied();
    while let Some(argument) = arguments.next() {
        match argument {
            "redis" | "redis-memory" if passed_on.is_empty() => passed_on.push(argument),
            "--quick" | "--scripts" | "--lists" if passed_on.first() == Some(&"redis") => {
                passed_on.push(argument);
            }
            "--server" => {
                let name = arguments.next();
                let name =
                    name.with_context(|| format!("--server needs one of {}", servers::names()))?;
                server = Some(servers::named(name)?.path(shell)?);
                report = Some(name);
            }
            name if passed_on.contains(&"--scripts") && !name.starts_with('-') => {
                passed_on.push(name);
            }
            other => bail!("bench has no `{other}` there; use {OPTIONS}"),
        }
    }
    if passed_on.is_empty() {
        bail!("bench of what? Use {OPTIONS}");
    }
    let server = server.map_or_else(|| test::server(shell), Ok)?;
    // Beside the main tree's own output: the peers enable features that it does without.
    let target = workspace::target_folder(shell)?.join("bench");
    let bench =
        cmd!(shell, "cargo run --release --manifest-path bench/Cargo.toml --target-dir {target}")
            .arg("--")
            .args(&passed_on)
            .env("LIMITER_SERVER", server)
            .quiet();
    let report = match (report, passed_on.as_slice()) {
        (Some(name), ["redis"]) => Some(name),
        (Some(_), ["redis-memory"]) => Some("redis-memory"),
        _ => None,
    };
    match report.map(|name| format!("docs/benchmarks/{name}.md")) {
        Some(report) => {
            let text = bench.read()?;
            println!("{text}");
            shell.write_file(&report, format!("{text}\n"))?;
            eprintln!("written to {report}");
        }
        None => bench.run()?,
    }
    Ok(())
}

/// What may follow on the command line.
pub(crate) const OPTIONS: &str = "memory [--quick] | flood [--keys N] | in-flight | several | layer [--quick] | \
                                  fleet [--quick | --audit SECONDS] | redis [--quick] [--scripts [SCRIPT...] | --lists] | \
                                  redis-memory; redis: \
                                  [--server NAME]";
