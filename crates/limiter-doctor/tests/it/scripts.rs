//! `scripts` lists the digests that servers show.

use std::process::Command;

use limiter_redis::scripts;
use limiter_rig::server::Server;

use crate::run;

#[test]
fn a_script_is_listed_by_the_digest_that_a_server_shows() {
    let server = Server::start();
    let printed = run(&["scripts"], &[], "");
    let listed: Vec<_> = printed.out.lines().filter_map(|line| line.split_once("  ")).collect();
    assert_eq!((printed.code, listed.len()), (0, scripts::all().count()), "{}", printed.out);
    for ((digest, name), (script, text)) in listed.into_iter().zip(scripts::all()) {
        let loaded = server.command(&["SCRIPT", "LOAD", text]).unwrap();
        assert_eq!((name, loaded.contains(digest)), (script, true), "{digest}: {loaded}");
    }
}

#[test]
fn the_text_of_a_script_is_printed_as_it_is_sent() {
    let (_, text) = scripts::all().find(|(name, _)| *name == "gcra").unwrap();
    let printed = run(&["scripts", "gcra"], &[], "");
    assert_eq!((printed.code, printed.out), (0, format!("{text}\n")));
    let printed = run(&["scripts", "gcr"], &[], "");
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.err.starts_with("error: invalid script \"gcr\"; use one of "), "{printed:?}");
}

/// `limiter-doctor top | head` ends without an error, although `head` closes the pipe early.
#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_limiter-doctor"));
    let output = command.arg("scripts").stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
}
