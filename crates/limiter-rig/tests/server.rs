//! What the tests of every other crate rely on: servers that obey commands, then stop.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions fail their test")]

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::process;
use std::time::Instant;
use std::{env, panic};

use limiter_rig::{
    program::Again,
    server::{Server, wait_until},
};

#[test]
fn a_paused_server_is_silent_until_resumed() {
    let server = Server::start();

    server.pause();
    let error = server.command(&["PING"]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");

    server.resume();
    assert_eq!(server.command(&["PING"]).unwrap(), "+PONG");
}

#[test]
fn a_restart_keeps_the_address_and_nothing_else() {
    let mut server = Server::start();
    let (port, process) = (server.port(), server.id());
    server.command(&["SET", "key", "value"]).unwrap();

    server.restart();

    assert_eq!(server.port(), port);
    assert_ne!(server.id(), process);
    assert_eq!(server.command(&["GET", "key"]).unwrap(), "$-1");
}

#[test]
fn a_server_leaves_nothing_behind() {
    for end in [
        drop,
        |server: Server| {
            server.pause();
            drop(server);
        },
        |server: Server| {
            let unwound = panic::catch_unwind(move || {
                let _server = server;
                panic!("on purpose, to unwind past a running server");
            });
            assert!(unwound.is_err());
        },
    ] {
        let server = Server::start();
        let remains = Remains::of(&server);
        end(server);
        remains.assert_gone();
    }
}

#[test]
fn an_aborted_test_leaves_nothing_behind() {
    const ABORT: &str = "LIMITER_TEST_ABORT";
    const NAME: &str = "an_aborted_test_leaves_nothing_behind";
    if env::var_os(ABORT).is_some() {
        let server = Server::start();
        println!("remains {} {}", server.port(), setting(&server, "dir"));
        server.pause();
        process::abort();
    }

    // The same test, in another process.
    let output = Again::command(NAME).env(ABORT, "1").output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (_, remains) = output.split_once("remains ").unwrap();
    let mut remains = remains.split_whitespace();
    let port: u16 = remains.next().unwrap().parse().unwrap();
    let folder = Path::new(remains.next().unwrap());

    // The server may end after its folder, and another test's may have its port for a while.
    let is_gone = || !folder.exists() && TcpStream::connect(("127.0.0.1", port)).is_err();
    wait_until("the server and its folder are gone", is_gone);
}

#[test]
fn a_missing_binary_is_named() {
    let error = Server::spawn(Path::new("/no/such-server"), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("/no/such-server"), "{error}");
}

#[test]
fn a_failed_start_quotes_the_log_at_once() {
    let binary = limiter_rig::server::binary().unwrap();
    let begin = Instant::now();
    let error = Server::spawn(&binary, &["--no-such-option", "1"]).unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
    assert!(begin.elapsed().as_secs() < 5);
}

/// What a server occupies while it runs.
struct Remains {
    port: u16,
    process: u32,
    folder: String,
}

impl Remains {
    fn of(server: &Server) -> Self {
        Self { port: server.port(), process: server.id(), folder: setting(server, "dir") }
    }

    fn assert_gone(&self) {
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err());
        assert!(!Path::new(&format!("/proc/{}", self.process)).exists());
        assert!(self.folder.contains("limiter-server-") && !Path::new(&self.folder).exists());
    }
}

fn setting(server: &Server, name: &str) -> String {
    let reply = server.command(&["CONFIG", "GET", name]).unwrap();
    // `*2`, the length of the name, the name, the length of the value, the value.
    reply.split("\r\n").nth(4).unwrap_or_default().to_owned()
}
