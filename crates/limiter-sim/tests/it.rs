//! The program `simulate`: the same seed in two processes, and what it says about its options.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().unwrap()
}

#[test]
fn two_processes_repeat_a_seed() {
    let hash = || {
        let output = simulate(&["--seed", "3", "--processes", "2"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    let once = hash();
    assert!(once.starts_with("seed 3, 2 processes, hash "), "{once}");
    assert_eq!(once, hash());
}

#[test]
fn a_wrong_world_is_found() {
    let output = simulate(&["--wrong", "refunds-what-has-drained"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("refunds-what-has-drained: found within "), "{text}");
}

#[test]
fn a_world_that_is_found_by_a_given_seed_prints_the_last_events() {
    let options = ["--seed", "1", "--wrong", "never-reconnects"];
    let text = String::from_utf8(simulate(&options).stdout).unwrap();
    assert!(text.contains(": found within ") && text.contains(" us  process "), "{text}");
}

#[test]
fn many_seeds_are_a_table() {
    let output = simulate(&["--seed", "1", "--processes", "1", "--count", "1"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(", 0 seeds with violations\n\n| fault | times |\n"), "{text}");
}

#[test]
fn a_number_of_new_seeds_is_run_after_the_listed_ones_without_those_that_fail() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/failing.txt");
    std::fs::write(path, "fails 7 # for a reason\n1\n").unwrap();
    let options = ["--processes", "1", "--faults-for", "0", "--seeds", path];
    let output = simulate(&[&options[..], &["--seed", "3", "--count", "1"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let begin = format!("not run, because {path} has it: fails 7 # for a reason\n2 runs, ");
    assert!(output.status.success() && text.starts_with(&begin), "{text}");
}

#[test]
fn unknown_options_are_quoted() {
    for (arguments, message) in [
        (&["--sed", "1"][..], "unknown option \"--sed\""),
        (&["--seed", "x"], "invalid --seed \"x\"; use a number"),
        (&["--seed"], "--seed needs a value"),
        (&["--without", "x"], "unknown fault \"x\"; use request-lost, "),
        (&["--seeds", "absent.txt"], "can't read absent.txt"),
        (&["--wrong", "x"], "unknown variant \"x\"; use all, refunds-what-has-drained"),
    ] {
        let output = simulate(arguments);
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn the_recorded_page_has_each_fault() {
    let page = include_str!("../../../docs/simulation.md");
    for fault in limiter_sim::Fault::all() {
        let is_counted = page.contains(&format!("\n| {fault} | "));
        assert!(
            is_counted,
            "{fault} was not recorded: run `cargo xtask simulate --seed 1 --count 500`"
        );
    }
}
