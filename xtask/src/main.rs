//! The commands of contributors and CI: `cargo xtask` lists them.

mod bench;
mod ci;
mod fuzz;
mod plots;
mod servers;
mod simulate;
mod test;
mod tidy;
mod workspace;

use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result};
use xshell::Shell;

/// A command: its name, its arguments, its purpose for the list, and its function.
type Command = (&'static str, &'static str, &'static str, fn(&Shell, &[&str]) -> Result<()>);

const COMMANDS: [Command; 8] = [
    (
        "test",
        "[--server NAME] [ARGUMENT...]",
        "run all tests, those that need servers too",
        test::run,
    ),
    ("ci", "[--no-test] [STEP...]", "run all checks that a change has to pass, or some", ci::run),
    ("tidy", "", "check the rules of this repository that no compiler checks", tidy::run),
    ("servers", "", "fetch all servers that tests use, and list them", servers::run),
    (
        "simulate",
        "[--ci | OPTION...]",
        "simulate fleets with faults, new seeds or one",
        simulate::run,
    ),
    ("fuzz", "[SECONDS]", "fuzz each target, for 60 s or as long; needs nightly", fuzz::run),
    ("bench", "PAGE... [--quick]", "measure beside other crates, and write pages", bench::run),
    ("plots", "", "draw the pictures of the algorithms", plots::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        help();
        return Ok(());
    };
    let command = COMMANDS.iter().find(|(command, ..)| command == name);
    let (.., run) =
        command.with_context(|| format!("no command `{name}`; `cargo xtask` lists them"))?;
    let shell = Shell::new()?;
    shell.change_dir(workspace::ROOT);
    run(&shell, rest)
}

fn help() {
    for (name, options, purpose, _) in COMMANDS {
        println!("cargo xtask {name} {options}\n    {purpose}");
    }
    println!("\nServers: {}", servers::names());
    println!("Steps of ci: {}", ci::names());
    println!("Pages of bench: {}", bench::names());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_the_list_for_contributors() {
        let list = include_str!("../../CONTRIBUTING.md");
        for (name, ..) in COMMANDS {
            assert!(list.contains(&format!("$ cargo xtask {name} ")), "{name}");
        }
    }
}
