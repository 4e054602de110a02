//! Runs the program on a real server, and changes its file while curl sends requests.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{fs, path::PathBuf, process::Command};

use limiter_rig::{
    program::{self, Program, Response},
    server::Server,
};

/// A copy of the example's file. Its quotas are for an hour, so that no permit returns during a test.
struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn new(name: &str, server: &Server) -> Self {
        let text = include_str!("../limits.toml").replace("/min", "/h");
        let text = text.replace("redis://127.0.0.1:6379\"", &format!("{}\"", server.url()));
        // A busy machine is not an outage.
        let text = text.replace("local_share", "deadline_ms = 20_000\nlocal_share");
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
        let file = Self { path, text };
        file.write(&file.text);
        file
    }

    /// Writes the file with one change.
    fn change(&self, from: &str, to: &str) {
        assert!(self.text.contains(from), "{from}");
        self.write(&self.text.replace(from, to));
    }

    fn write(&self, text: &str) {
        let new = self.path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    fn start(&self) -> Program {
        Program::start(Command::new(env!("CARGO_BIN_EXE_example-axum-redis")).arg(&self.path))
    }
}

fn get(program: &Program, api_key: &str) -> Response {
    program.curl(&["-H", &format!("x-api-key: {api_key}")], "/")
}

/// Returns how many of 25 requests were admitted.
fn admitted(program: &Program, api_key: &str) -> usize {
    (0..25).filter(|_| get(program, api_key).status != 429).count()
}

/// Returns the policy, without its window, and the permits that remain.
fn limit(response: &Response) -> (&str, &str) {
    let policy = response.field("ratelimit-policy").unwrap().split(";w=").next();
    let remaining = response.field("ratelimit").unwrap().split(['=', ';']).nth(2);
    (policy.unwrap(), remaining.unwrap())
}

#[test]
fn each_tier_has_its_limit_and_other_keys_that_of_their_address() {
    let server = Server::start();
    let program = File::new("tiers", &server).start();

    let response = get(&program, "bob-1");
    assert_eq!((response.status, &*response.body), (200, "hello bob\n"));
    assert_eq!(limit(&response), ("\"basic\";q=10", "9"));
    assert_eq!(admitted(&program, "bob-1"), 9);
    // Two keys of one customer share a limit.
    assert_eq!(limit(&get(&program, "alice-2")), ("\"premium\";q=100", "19"));
    assert_eq!(admitted(&program, "alice-1"), 19);

    let response = get(&program, "guessed");
    assert_eq!((response.status, &*response.body), (401, "unknown API key\n"));
    assert_eq!(limit(&response), ("\"api\";q=5", "4"));
    assert_eq!(admitted(&program, "another"), 4);
    let response = program.curl(&[], "/");
    assert_eq!(response.status, 429);
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
    let seconds: u64 = response.field("retry-after").unwrap().parse().unwrap();
    assert!((600..=720).contains(&seconds), "{seconds}");
    assert!(response.body.contains("\"violated-policies\":[\"api\"]"), "{}", response.body);
}

#[test]
fn a_changed_limit_applies_to_what_a_customer_has_used() {
    let server = Server::start();
    let file = File::new("changed", &server);
    let program = file.start();
    let printed = program::shell(program.line("curl -si").trim());
    assert!(printed.contains("ratelimit: \"basic\";r=9;"), "{printed}");

    file.change("basic = \"10/h\"", "basic = \"50/h\"");
    assert!(program.line("reloaded").contains("changed.toml"));
    // A tenth was used, and this is the fiftieth part.
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=50", "44"));
    file.change("limit = \"5/h\"", "limit = \"7/h\"");
    let _ = program.line("reloaded");
    assert_eq!(limit(&get(&program, "none")), ("\"api\";q=7", "6"));
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=10", "7"));
}

#[test]
fn a_shadow_refuses_nothing_until_the_limits_are_enforced_again() {
    let server = Server::start();
    let file = File::new("shadow", &server);
    let program = file.start();
    assert_eq!(admitted(&program, "bob-1"), 10);
    file.change("enforced_percent = 100", "enforced_percent = 0");
    let _ = program.line("reloaded");
    assert_eq!(admitted(&program, "bob-1"), 25);
    file.change("enforced_percent = 100", "enforced_percent = 101");
    let log = program.line("so the old limits stay");
    assert!(log.ends_with("invalid percentage 101: it must be at most 100"), "{log}");
    assert_eq!(admitted(&program, "bob-1"), 25);
    file.write(&file.text);
    let _ = program.line("reloaded");
    assert_eq!(admitted(&program, "bob-1"), 0);
}

#[test]
fn after_an_invalid_change_the_old_limits_stay() {
    let server = Server::start();
    let file = File::new("invalid", &server);
    let program = file.start();
    file.change("basic = \"10/h\"", "basic = \"0/h\"");
    let log = program.line("invalid.toml is invalid, so the old limits stay");
    assert!(log.ends_with("TOML parse error at line 19, column 9"), "{log}");
    let fault = "\"api.tiers.basic\": invalid limit \"0/h\": permits must be at least 1";
    assert_eq!(program.line("api.tiers."), fault);
    file.change("limits.api", "limits.app");
    let log = program.line("so the old limits stay");
    assert!(log.ends_with("the file has no [limits.api]"), "{log}");
    // Another algorithm needs another limiter.
    file.write(&file.text.replace("5/h", "5/h by sliding-log").replace(" burst 20", ""));
    let log = program.line("so the old limits stay");
    assert!(log.contains("sliding-log"), "{log}");
    fs::remove_file(&file.path).unwrap();
    let log = program.line("so the old limits stay");
    assert!(log.contains("No such file"), "{log}");
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=10", "9"));

    file.change("basic = \"10/h\"", "basic = \"20/h\"");
    let _ = program.line("reloaded");
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=20", "17"));
}

#[test]
fn two_processes_share_the_limits() {
    let server = Server::start();
    let file = File::new("shared", &server);
    let programs = [file.start(), file.start()];
    let admitted = (0..16).filter(|index| get(&programs[index % 2], "bob-1").status == 200);
    assert_eq!(admitted.count(), 10);
}

#[test]
fn without_redis_each_process_admits_its_half() {
    let mut server = Server::start();
    let program = File::new("outage", &server).start();
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=10", "9"));
    server.kill();
    // The permit that was admitted through Redis is a part of this process's half.
    assert_eq!(limit(&get(&program, "bob-1")), ("\"basic\";q=5", "3"));
    assert_eq!(admitted(&program, "bob-1"), 3);
    server.restart();
    assert!((0..100).any(|_| limit(&get(&program, "bob-1")).0 == "\"basic\";q=10"));
}
