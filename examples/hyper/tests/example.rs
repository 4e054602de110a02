//! Runs the program and sends it requests by curl.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{net::TcpStream, process::Command};

use limiter_rig::program::{self, Program, Response};

fn start() -> Program {
    Program::start(&mut Command::new(env!("CARGO_BIN_EXE_example-hyper")))
}

fn remaining(response: &Response) -> &str {
    response.field("ratelimit").unwrap().split(['=', ';']).nth(2).unwrap()
}

#[test]
fn a_post_is_worth_five_requests() {
    let program = start();
    let response = program.curl(&["-d", "hello"], "/");
    assert_eq!((response.status, &*response.body), (200, "received 5 bytes\n"));
    assert_eq!(response.field("ratelimit-policy"), Some("\"default\";q=10;w=3600"));
    assert_eq!(remaining(&response), "5");
    for left in ["4", "3", "2"] {
        let response = program.curl(&[], "/");
        assert_eq!((response.status, &*response.body), (200, "received 0 bytes\n"));
        assert_eq!(remaining(&response), left);
    }
    let response = program.curl(&["-d", "hello"], "/");
    assert_eq!((response.status, &*response.body), (429, "rate limit exceeded\n"));
    let seconds: u64 = response.field("retry-after").unwrap().parse().unwrap();
    assert!((900..=1080).contains(&seconds), "{seconds}");
    // A smaller cost fits.
    assert_eq!(program.curl(&[], "/").status, 200);
}

#[test]
fn each_address_has_its_own_limit() {
    let program = start();
    for source in ["127.0.0.1", "127.0.0.2"] {
        let post = || program.curl(&["--interface", source, "-d", "hello"], "/").status;
        assert_eq!([post(), post(), post()], [200, 200, 429]);
    }
}

#[test]
fn a_client_can_not_choose_its_address() {
    let program = start();
    let statuses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| {
        let field = format!("x-forwarded-for: {address}");
        program.curl(&["-H", &field, "-d", "hello"], "/").status
    });
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn the_printed_command_shows_the_first_refusal() {
    let program = start();
    let output = program::shell(program.line("curl -si").trim());
    let statuses: Vec<_> = output.lines().filter(|line| line.starts_with("HTTP/1.1")).collect();
    let ok = "HTTP/1.1 200 OK";
    assert_eq!(statuses, [ok, ok, "HTTP/1.1 429 Too Many Requests"]);
}

/// One client with many connections once ended the program.
#[test]
fn it_goes_on_after_too_many_open_files() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 16 && exec \"$0\"", env!("CARGO_BIN_EXE_example-hyper")]);
    let program = Program::start(&mut command);
    let connections = [(); 32].map(|()| TcpStream::connect(program.address()).unwrap());
    drop(connections);
    assert_eq!(program.curl(&[], "/").status, 200);
}
