//! The program `simulate`: the same seed in two processes, and what it says about its options.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().unwrap()
}

#[test]
fn two_processes_repeat_a_seed() {
    let hash = |more: &[&str]| {
        let options = [&["--seed", "3", "--processes", "2"], more].concat();
        let output = simulate(&options);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    let once = hash(&[]);
    assert!(once.starts_with("seed 3, 2 processes, hash "), "{once}");
    assert_eq!(once, hash(&[]));
    let in_flight = hash(&["--in-flight"]);
    assert_ne!(once, in_flight);
    assert_eq!(in_flight, hash(&["--in-flight"]));
}

#[test]
fn a_wrong_world_is_found() {
    let output = simulate(&["--wrong", "refunds-twice"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("refunds-twice: found within "), "{text}");
}

#[test]
fn a_shortest_run_is_repeated() {
    let output = simulate(&["--wrong", "executes-twice", "--seed", "1", "--faults-for", "0"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("executes-twice: found within 1 seeds: "), "{text}");
    // The events of the key, too.
    assert!(text.contains("is executed: "), "{text}");
}

#[test]
fn seeds_run_until_so_many_faults_have_happened() {
    let output = simulate(&["--seed", "1", "--processes", "1", "--faults", "1"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" 0 violations; "), "{text}");
    assert!(text.contains(" threads\n"), "{text}");
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
fn each_kind_of_runs_is_a_section_of_the_record() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/sections.txt");
    // The second seed is run once more with requests in flight.
    std::fs::write(path, "1\n6\n").unwrap();
    let output =
        simulate(&["--processes", "1", "--faults-for", "500000", "--sections", "--seeds", path]);
    let text = String::from_utf8(output.stdout).unwrap();
    let sections: Vec<_> = text.split("\n## ").skip(1).collect();
    let begins = ["Limiters\n\n2 runs, ", "Requests in flight\n\n1 runs, "];
    assert_eq!(sections.len(), begins.len(), "{text}");
    for (section, begin) in sections.into_iter().zip(begins) {
        assert!(section.starts_with(begin), "{text}");
        assert!(section.contains(" 0 violations\n\n| fault | times |\n|---|---:|\n| "), "{text}");
    }
}

#[test]
fn unknown_options_are_quoted() {
    for (arguments, message) in [
        (&["--sed", "1"][..], "unknown option \"--sed\""),
        (&["--seed", "x"], "invalid --seed \"x\"; use a number"),
        (&["--seed"], "--seed needs a value"),
        (
            &["--minutes", "1", "--faults", "1"],
            "--minutes, --faults and --count exclude each other",
        ),
        (&["--without", "x"], "unknown fault \"x\"; use request-lost, "),
        (&["--seeds", "absent.txt"], "can't read absent.txt"),
        (&["--wrong", "x"], "unknown variant \"x\"; use all, executes-twice"),
    ] {
        let output = simulate(arguments);
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(message), "{text}");
    }
}
