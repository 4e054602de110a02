//! Everything a contributor would otherwise have to remember: `cargo xtask` lists it.

mod bench;
mod bounds;
mod ci;
mod compare;
mod doctor;
mod features;
mod fuzz;
mod models;
mod no_std;
mod plots;
mod servers;
mod steps;
mod test;
mod tidy;
mod twins;
mod workspace;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};
use xshell::Shell;

/// A word of the command line, what may follow it, what it does, and the doing.
struct Task {
    name: &'static str,
    options: &'static str,
    purpose: &'static str,
    run: fn(&Shell, &[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        options: "[--server NAME | --all-servers] [ARGUMENT...]",
        purpose: "cargo test of everything, with a real server that it fetches when there is none",
        run: test::run,
    },
    Task {
        name: "ci",
        options: "[--no-test] [STEP...]",
        purpose: "all that must hold before a change is merged, or the named steps of it",
        run: ci::run,
    },
    Task {
        name: "models",
        options: "[MODEL]",
        purpose: "try every interleaving of what threads share in memory, in small models",
        run: models::run,
    },
    Task {
        name: "twins",
        options: "",
        purpose: "100,000 random calls an algorithm by its script and by its twin, on a real server",
        run: twins::run,
    },
    Task {
        name: "fuzz",
        options: "[--seconds N] [TARGET...]",
        purpose: "random bytes against the notation and the operations, 60 s each; needs nightly",
        run: fuzz::run,
    },
    Task {
        name: "tidy",
        options: "",
        purpose: "the house rules that no compiler knows",
        run: tidy::run,
    },
    Task {
        name: "servers",
        options: "",
        purpose: "fetch all the servers to test with, and list them",
        run: servers::run,
    },
    Task {
        name: "doctor",
        options: "URL [PREFIX]",
        purpose: "look at a Redis or Valkey server before it keeps limits, and say what to change",
        run: doctor::run,
    },
    Task {
        name: "bounds",
        options: "",
        purpose: "what each algorithm promises to admit at most, and what an adversary gets",
        run: bounds::run,
    },
    Task {
        name: "compare",
        options: "",
        purpose: "the algorithms side by side: accuracy, memory and time, measured here and now",
        run: compare::run,
    },
    Task {
        name: "bench",
        options: bench::OPTIONS,
        purpose: "decisions a second through Redis beside a floor and peers, or bytes a key there",
        run: bench::run,
    },
    Task {
        name: "plots",
        options: "[--check]",
        purpose: "draw each algorithm under the same traffic, or check that the pictures are current",
        run: plots::run,
    },
    Task { name: "help", options: "", purpose: "this list", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Err(error) = dispatch(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error:#}");
    let tests_failed = error.downcast_ref::<test::Failed>();
    tests_failed.map_or(ExitCode::FAILURE, test::Failed::exit_code)
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::ROOT);
    let Some((name, rest)) = arguments.split_first() else {
        return help(&shell, &[]);
    };
    match TASKS.iter().find(|task| task.name == name.trim_start_matches('-')) {
        Some(task) => (task.run)(&shell, rest),
        None => bail!("no task `{name}`; `cargo xtask help` lists them"),
    }
}

fn help(_: &Shell, _: &[String]) -> Result<()> {
    println!("cargo xtask TASK\n");
    for task in TASKS {
        println!("  {} {}\n      {}", task.name, task.options, task.purpose);
    }
    println!("\nServers: {}", servers::names());
    println!("Steps of ci: {}", ci::names());
    Ok(())
}
