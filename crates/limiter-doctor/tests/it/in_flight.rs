//! Permits of requests in flight: what is stored of them, in words.

use std::time::Duration;

use limiter_core::InFlightPermit;
use limiter_redis::{RedisInFlight, connect};
use limiter_rig::server::Server;

use crate::{doctor, limiter, take};

const KEY: &str = "limiter:{salice}:uploads:inflight";

async fn uploads(server: &Server) -> RedisInFlight {
    let builder = RedisInFlight::builder("uploads", 30).deadline(Duration::from_secs(5));
    builder.build_on(connect(&server.url()).await.unwrap()).unwrap()
}

async fn enter(limiter: &RedisInFlight, key: &str, number: usize) -> Vec<InFlightPermit> {
    let mut permits = Vec::new();
    for _ in 0..number {
        permits.push(limiter.enter(key).await.unwrap().into_permit().unwrap());
    }
    permits
}

#[tokio::test]
async fn requests_in_flight_are_explained() {
    let server = Server::start();
    let uploads = uploads(&server).await;
    let _permits = enter(&uploads, "alice", 3).await;
    // Of a process that was killed before 2024.
    server.command(&["ZADD", KEY, "1700000000000000", "killed"]).unwrap();
    for target in [&["explain", KEY][..], &["explain", "alice", "--name", "uploads"]] {
        let printed = doctor(&server, target);
        let lines: Vec<_> = printed.out.lines().collect();
        for (line, text) in lines.iter().zip([
            KEY,
            "  subject  \"alice\" (text)",
            "  policy   uploads",
            "  expires  in ",
            "",
            "requests in flight",
            "  3 requests in flight. The limit is not stored.",
            "  1 permit expired, and counts until the limit is reached.",
            "  permit killed expired ",
        ]) {
            assert!(line.starts_with(text), "{text:?}: {}", printed.out);
        }
        assert_eq!((printed.code, lines.len()), (0, 12), "{printed:?}");
        for line in &lines[9..] {
            assert!(line.contains(" expires in 2") && line.ends_with(" unless it is renewed"));
        }
    }
    let _more = enter(&uploads, "alice", 26).await;
    let printed = doctor(&server, &["explain", KEY]);
    assert!(printed.out.contains("\n  The 20 that expire first of 30:\n"), "{printed:?}");
}

#[tokio::test]
async fn a_set_that_no_limiter_writes_is_a_problem() {
    let server = Server::start();
    for (score, problem) in [
        ("9999999999000000", "Reset the subject."),
        ("+inf", "A member of the set is not a permit, because its score is not a time"),
        ("1.5", "A member of the set is not a permit, because its score is not a time"),
    ] {
        server.command(&["DEL", KEY]).unwrap();
        server.command(&["ZADD", KEY, score, "x"]).unwrap();
        server.command(&["PEXPIRE", KEY, "60000"]).unwrap();
        let printed = doctor(&server, &["explain", KEY]);
        printed.has(1, [problem]);
        assert!(!printed.out.contains("check"), "in the words of rates: {printed:?}");
        let printed = doctor(&server, &["top"]);
        assert!(
            printed.out.contains("Skipped 1 value that is written by no limiter"),
            "{printed:?}"
        );
    }
    server.command(&["SET", KEY, "x", "PX", "60000"]).unwrap();
    let printed = doctor(&server, &["explain", KEY]);
    printed.has(1, ["fail with WRONGTYPE"]);
}

#[tokio::test]
async fn requests_in_flight_are_listed_and_reported_beside_permits_of_rates() {
    let server = Server::start();
    let _permits = enter(&uploads(&server).await, "alice", 3).await;
    take(&limiter(&server, "api", "10/d").await, "alice", 2).await;
    let printed = doctor(&server, &["top"]);
    let lines: Vec<_> = printed.out.lines().collect();
    // Limits whose part in use is known come first.
    assert!(lines[1].ends_with("limiter:{salice}:api  gcra.86400s"), "{printed:?}");
    assert!(lines[2].trim_start().starts_with("3 requests "), "{printed:?}");
    assert!(lines[2].ends_with(&format!("{KEY} (in flight)")), "{printed:?}");
    let printed = doctor(&server, &["top", "--name", "uploads"]);
    assert!(printed.out.lines().nth(1).unwrap().contains(" 3 requests "), "{printed:?}");

    let printed = doctor(&server, &["report"]);
    assert!(printed.out.contains("all of 2 keys that match \"limiter:*\" have an expiry"));
    assert!(
        printed.out.contains("the user may run all commands that limiters send"),
        "{printed:?}"
    );
    server.command(&["PERSIST", KEY]).unwrap();
    let printed = doctor(&server, &["report"]);
    let text = "1 of 2 keys that match \"limiter:*\" have no expiry";
    printed.has(1, [text]);
    let printed = doctor(&server, &["explain", KEY]);
    printed.has(1, ["The key has no expiry."]);
}

#[tokio::test]
async fn a_user_who_may_not_use_sorted_sets_is_reported() {
    let server = Server::start();
    for command in limiter_redis::scripts::IN_FLIGHT_COMMANDS {
        let refused = format!("-{}", command.to_lowercase());
        let words = ["ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all", &refused];
        server.command(&words).unwrap();
        let printed = doctor(&server, &["report"]);
        let text = format!("may not run {command}, which limits on requests in flight need\n");
        // Rates do without.
        printed.has(0, [&text]);
    }
}

#[tokio::test]
async fn requests_in_flight_are_reset() {
    let server = Server::start();
    let uploads = uploads(&server).await;
    let _permits = enter(&uploads, "alice", 30).await;
    assert!(!uploads.enter("alice").await.unwrap().is_admitted());
    let printed = doctor(&server, &["reset", "alice", "--name", "uploads"]);
    assert!(printed.out.starts_with(&format!("Deleted {KEY}\n")), "{printed:?}");
    assert!(printed.out.contains("Requests in flight go on."), "{printed:?}");
    // The process knows for a moment longer that the key was full.
    let mut is_admitted = false;
    for _ in 0..400 {
        is_admitted = is_admitted || uploads.enter("alice").await.unwrap().is_admitted();
        tokio::time::sleep(Duration::from_millis(5)).await;
        if is_admitted {
            break;
        }
    }
    assert!(is_admitted);
}
