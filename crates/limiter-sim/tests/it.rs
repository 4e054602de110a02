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
    let output = simulate(&["--wrong", "refunds-twice"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("refunds-twice: found within 1 seeds: "), "{text}");
}

#[test]
fn unknown_options_are_quoted() {
    for (arguments, message) in [
        (&["--seeds", "1"][..], "unknown option \"--seeds\""),
        (&["--seed", "x"], "invalid --seed \"x\"; use a number"),
        (&["--seed"], "--seed needs a value"),
        (&["--wrong", "x"], "unknown variant \"x\"; use all, executes-twice"),
    ] {
        let output = simulate(arguments);
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(message), "{text}");
    }
}
