//! The tasks of contributors and CI: `cargo xtask` lists them.

mod api;
mod bench;
mod bounds;
mod ci;
mod compare;
mod dependencies;
mod examples;
mod features;
mod fuzz;
mod licences;
mod minimal_versions;
mod models;
mod no_std;
mod package;
mod plots;
mod quick;
mod release;
mod rust_version;
mod scripts;
mod servers;
mod simulate;
mod steps;
mod test;
mod tidy;
mod workspace;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};
use xshell::Shell;

/// A task: its name, its arguments, its purpose for the list, and its function.
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
        purpose: "run all tests, with an installed server or a fetched one",
        run: test::run,
    },
    Task {
        name: "examples",
        options: examples::OPTIONS,
        purpose: "run all examples, or the named ones, and show what their tests see; --full takes minutes",
        run: examples::run,
    },
    Task {
        name: "ci",
        options: "[--no-test] [STEP...]",
        purpose: "run all checks that a change has to pass, or the named ones",
        run: ci::run,
    },
    Task {
        name: "quick",
        options: "",
        purpose: "check the format, the lints and the tidy rules, and test the core: under a minute after an edit",
        run: quick::run,
    },
    Task {
        name: "release",
        options: "--check",
        purpose: "do all that a release does but the upload, and list what only the owner can fill in",
        run: release::run,
    },
    Task {
        name: "models",
        options: "[MODEL]",
        purpose: "run small models of the shared memory in every interleaving of their threads",
        run: models::run,
    },
    Task {
        name: "simulate",
        options: simulate::OPTIONS,
        purpose: "run fleets and their server in one thread, with seeded faults; new seeds for a minute, or one seed",
        run: simulate::run,
    },
    Task {
        name: "scripts",
        options: "",
        purpose: "write the Lua scripts as they are sent to docs/scripts/, which a test checks",
        run: scripts::run,
    },
    Task {
        name: "fuzz",
        options: "[--seconds N] [TARGET...]",
        purpose: "fuzz the notation and the operations, 60 s each; needs a nightly compiler",
        run: fuzz::run,
    },
    Task {
        name: "tidy",
        options: "",
        purpose: "check the rules of this repository that no compiler checks",
        run: tidy::run,
    },
    Task {
        name: "features",
        options: "[--pairs]",
        purpose: "check the crates with no feature, each, all, and if asked each pair",
        run: features::run,
    },
    Task {
        name: "api",
        options: "[--check]",
        purpose: "list the public API of each library, or check that the lists are current",
        run: api::run,
    },
    Task {
        name: "minimal-versions",
        options: "",
        purpose: "build with the oldest direct dependencies allowed; needs a nightly compiler",
        run: minimal_versions::run,
    },
    Task {
        name: "servers",
        options: "",
        purpose: "fetch all servers that tests use, and list them",
        run: servers::run,
    },
    Task {
        name: "bounds",
        options: "",
        purpose: "print the most that each algorithm may admit, and the most that an adversary got",
        run: bounds::run,
    },
    Task {
        name: "compare",
        options: "",
        purpose: "measure the accuracy, memory and time of the algorithms, and print the tables",
        run: compare::run,
    },
    Task {
        name: "bench",
        options: bench::OPTIONS,
        purpose: "time and memory of checks, in memory, through Redis and in a layer, beside other crates",
        run: bench::run,
    },
    Task {
        name: "plots",
        options: "[--check]",
        purpose: "draw the pictures of the documents, or check that they are current",
        run: plots::run,
    },
    Task { name: "help", options: "", purpose: "print this list", run: help },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_is_in_the_list_for_contributors() {
        let list = include_str!("../../CONTRIBUTING.md");
        for Task { name, .. } in TASKS.iter().filter(|task| task.name != "help") {
            let is_listed = list.lines().any(|line| {
                let words = line.strip_prefix("$ cargo xtask ").map(str::split_whitespace);
                words.is_some_and(|mut words| words.next() == Some(*name))
            });
            assert!(is_listed, "CONTRIBUTING.md does not list `cargo xtask {name}`");
        }
    }

    /// What contributors run when they need it: it checks nothing, or it is a part of a task that is listed.
    const BY_HAND: &[&str] =
        &["examples", "quick", "scripts", "servers", "compare", "bench", "help"];

    #[test]
    fn each_task_is_run_by_ci_or_known_to_be_run_by_hand() {
        let steps = ci::names();
        let workflows = [
            include_str!("../../.github/workflows/ci.yml"),
            include_str!("../../.github/workflows/weekly.yml"),
        ];
        let runs = |name: &str| {
            let mut words = workflows.iter().flat_map(|text| text.split("cargo xtask ").skip(1));
            words.any(|rest| rest.split_whitespace().next() == Some(name))
        };
        for Task { name, .. } in TASKS {
            let is_run = runs(name) || steps.split(", ").any(|step| step == *name);
            let is_by_hand = BY_HAND.contains(name);
            assert_ne!(
                is_run, is_by_hand,
                "`cargo xtask {name}`: add it to STEPS, a workflow or BY_HAND"
            );
        }
    }
}
