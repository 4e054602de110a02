//! Runs the program and sends it requests by curl.

use std::{net::TcpStream, process::Command};

use limiter_rig::program::{self, Program};

fn start() -> Program {
    Program::start(&mut Command::new(env!("CARGO_BIN_EXE_example-warp")))
}

#[test]
fn ten_are_admitted_and_told_how_many_remain() {
    let program = start();
    for remaining in (0..10).rev() {
        let response = program.curl(&[], "/hello/ada");
        let body = format!("hello ada, {remaining} requests remain\n");
        assert_eq!((response.status, response.body), (200, body));
    }
    let response = program.curl(&[], "/hello/ada");
    assert_eq!((response.status, &*response.body), (429, "rate limit exceeded\n"));
    assert_eq!(response.field("ratelimit-policy"), Some("\"default\";q=10;w=3600"));
    assert!(response.field("retry-after").is_some());
}

#[test]
fn health_is_not_counted() {
    let program = start();
    for _ in 0..12 {
        let response = program.curl(&[], "/health");
        assert_eq!((response.status, &*response.body), (200, "healthy\n"));
        assert_eq!(response.field("ratelimit"), None);
    }
    assert!(program.curl(&[], "/hello/ada").body.contains("9 requests remain"));
}

#[test]
fn an_unknown_path_is_counted() {
    let program = start();
    let response = program.curl(&[], "/secret");
    assert_eq!(response.status, 404);
    assert!(response.field("ratelimit").is_some_and(|limit| limit.contains(";r=9;")));
}

#[test]
fn each_address_has_its_own_limit() {
    let program = start();
    for source in ["127.0.0.1", "127.0.0.2"] {
        let body = program.curl(&["--interface", source], "/hello/ada").body;
        assert_eq!(body, "hello ada, 9 requests remain\n");
    }
}

#[test]
fn the_printed_commands_show_refusals_and_health() {
    let program = start();
    let output = program::shell(program.line("seq 12").trim());
    assert_eq!(output.matches("HTTP/1.1 200 OK").count(), 10);
    assert_eq!(output.matches("HTTP/1.1 429 Too Many Requests").count(), 2);
    assert!(program::shell(program.line("/health").trim()).ends_with("healthy\n"));
}

/// One client with many connections once ended the program.
#[test]
fn it_goes_on_after_too_many_open_files() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 16 && exec \"$0\"", env!("CARGO_BIN_EXE_example-warp")]);
    let program = Program::start(&mut command);
    let connections = [(); 32].map(|()| TcpStream::connect(program.address()).unwrap());
    drop(connections);
    assert_eq!(program.curl(&[], "/health").status, 200);
}
