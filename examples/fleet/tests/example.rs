//! Runs fleets on real servers, with and without leases.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    process::{Command, Output},
    sync::{Mutex, PoisonError},
};

use limiter_rig::server;

fn run(options: &[&str], (variable, value): (&str, &str)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-fleet"));
    command.env_remove("REDIS_URL").env(variable, value);
    let output = command.args(options).output().unwrap();
    println!("$ cargo run --release -p example-fleet -- {}", options.join(" "));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What the summary says.
struct Summary {
    text: String,
}

impl Summary {
    /// Runs three processes for two seconds, on a server that the program starts. How much of the bound they use depends on
    /// the machine.
    fn of(options: &[&str]) -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = server::binary().unwrap();
        let common = ["--processes", "3", "--rate", "5000", "--seconds", "2", "--load", "2"];
        let options = [&common, options].concat();
        let output = run(&options, ("LIMITER_SERVER", binary.to_str().unwrap()));
        assert!(output.status.success(), "{}", output.status);
        let run = Self { text: String::from_utf8(output.stdout).unwrap() };
        let (admitted, bound) = (run.number("admitted"), run.number("bound"));
        assert!(admitted > 0.0 && admitted <= bound, "{admitted} of {bound}");
        assert!((15_000.0..20_000.0).contains(&bound), "{bound}");
        // Each process has shown its rate.
        let shown = run.text.lines().find(|line| line.ends_with("trips an admission")).unwrap();
        assert_eq!(shown.matches(" + ").count(), 2, "{shown}");
        run
    }

    fn line(&self, name: &str) -> &str {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().trim()
    }

    /// Returns the number that a line begins with.
    fn number(&self, name: &str) -> f64 {
        self.line(name).split([' ', ':']).next().unwrap().parse().unwrap()
    }
}

#[test]
fn a_fleet_with_leases_stays_within_the_limit_with_few_calls() {
    let summary = Summary::of(&[]);
    let trips = summary.number("trips");
    // On a quiet machine it is 0.01.
    assert!(trips > 0.0 && trips < 0.5, "{trips}");
    assert!(summary.line("permits").contains(" leases: "));
}

#[test]
fn a_fleet_without_leases_calls_the_server_again_and_again() {
    let summary = Summary::of(&["--no-leases"]);
    let trips = summary.number("trips");
    assert!(trips > 0.5, "{trips}");
    assert!(!summary.text.contains("permits "), "{}", summary.text);
}

#[test]
fn without_a_server_it_says_what_to_install() {
    let output = run(&[], ("LIMITER_SERVER", "/no/such/server"));
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    let expected =
        "LIMITER_SERVER is \"/no/such/server\", which is not there: install one, such as";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_server_that_does_not_answer_is_an_error() {
    let output = run(&[], ("REDIS_URL", "redis://127.0.0.1:1"));
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no connection to the server"), "{error}");
}

#[test]
fn an_invalid_option_is_quoted() {
    for (options, expected) in [
        (&["--rate", "many"][..], "invalid --rate \"many\""),
        (&["--load", "1000"], "--load is 1000: use 0.01 to 100"),
        (&["--seconds"], "--seconds needs a value"),
        (&["--lease"], "unknown option \"--lease\""),
    ] {
        let output = run(options, ("LIMITER_SERVER", "/no/such/server"));
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
