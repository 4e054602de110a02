//! Permits of requests in flight: what is stored of them, in words.

use std::time::Duration;

use limiter_core::InFlightPermit;
use limiter_redis::{RedisInFlight, connect};
use limiter_rig::server::Server;
use serde_json::json;

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
            "  subject    \"alice\" (text)",
            "  policy     uploads",
            "  algorithm  inflight",
            "  expires    in ",
            "",
            "inflight: 3 requests in flight. The limit is not stored.",
            "1 permit expired, and counts until the limit is reached.",
            "  deadline   1700000000000000  permit killed, which expired ",
        ]) {
            assert!(line.starts_with(text), "{text:?}: {}", printed.out);
        }
        assert_eq!((printed.code, lines.len()), (0, 12), "{printed:?}");
        for line in &lines[9..] {
            assert!(
                line.contains(", which expires in 2") && line.ends_with(" unless it is renewed")
            );
        }
    }
    let json = doctor(&server, &["--json", "explain", KEY]).json();
    let key = &json["keys"][0];
    assert_eq!((&key["algorithm"], &key["problem"]), (&json!("inflight"), &json!(null)));
    assert_eq!(key["state"]["permits_in_use"], 3);
    assert_eq!(key["state"]["fields"].as_array().unwrap().len(), 4);

    let _more = enter(&uploads, "alice", 26).await;
    let printed = doctor(&server, &["explain", KEY]);
    assert!(printed.out.contains("\nThe 20 that expire first of 30:\n"), "{printed:?}");
}

#[tokio::test]
async fn a_set_that_no_limiter_writes_is_a_problem() {
    let server = Server::start();
    for (score, problem) in [
        ("9999999999000000", "Reset the subject."),
        ("+inf", "No limiter writes this value."),
        ("1.5", "No limiter writes this value."),
    ] {
        server.command(&["DEL", KEY]).unwrap();
        server.command(&["ZADD", KEY, score, "x"]).unwrap();
        server.command(&["PEXPIRE", KEY, "60000"]).unwrap();
        let printed = doctor(&server, &["explain", KEY]);
        assert!(printed.code == 1 && printed.out.contains(problem), "{printed:?}");
        let printed = doctor(&server, &["top"]);
        assert!(printed.out.contains("Skipped 1 of them"), "{printed:?}");
    }
    server.command(&["SET", KEY, "x", "PX", "60000"]).unwrap();
    let printed = doctor(&server, &["explain", KEY]);
    assert!(printed.code == 1 && printed.out.contains("fail with WRONGTYPE"), "{printed:?}");
}

#[tokio::test]
async fn requests_in_flight_are_listed_and_reported_beside_permits_of_rates() {
    let server = Server::start();
    let _permits = enter(&uploads(&server).await, "alice", 3).await;
    take(&limiter(&server, "api", "10/d").await, "alice", 2).await;
    let printed = doctor(&server, &["top"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert!(lines[1].trim_start().starts_with("3 "), "{printed:?}");
    assert!(lines[1].ends_with(&format!("{KEY} (requests in flight)")), "{printed:?}");
    assert!(lines[2].ends_with("limiter:{salice}:api:gcra"), "{printed:?}");
    let printed = doctor(&server, &["top", "--name", "uploads", "--json"]);
    assert_eq!(printed.json()["subjects"][0]["permits_in_use"], 3);

    let printed = doctor(&server, &["report"]);
    assert!(printed.out.contains("all of 2 keys that match \"limiter:*\" have an expiry"));
    assert!(
        printed.out.contains("the user may run all commands that limiters send"),
        "{printed:?}"
    );
    server.command(&["PERSIST", KEY]).unwrap();
    let printed = doctor(&server, &["report"]);
    let text = "1 of 2 keys that match \"limiter:*\" have no expiry";
    assert!(printed.code == 1 && printed.out.contains(text), "{printed:?}");
    let printed = doctor(&server, &["explain", KEY]);
    assert!(printed.code == 1 && printed.out.contains("The key has no expiry."), "{printed:?}");
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
        assert!(printed.code == 0 && printed.out.contains(&text), "{printed:?}");
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
    assert!(uploads.enter("alice").await.unwrap().is_admitted());
    let json = doctor(&server, &["--json", "reset", KEY]).json();
    assert_eq!(json["leases"], json!([]));
}
