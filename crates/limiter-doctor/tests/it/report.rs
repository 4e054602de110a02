//! `report` says what is wrong with a server, and what to change.

use limiter_test::server::Server;
use serde_json::Value;

use crate::{Printed, doctor, run};

/// Returns the severity and the advice of the finding that contains `text`.
fn found(json: &Value, text: &str) -> (String, String) {
    let findings = json["findings"].as_array().unwrap();
    let finding =
        findings.iter().find(|finding| finding["finding"].as_str().unwrap().contains(text));
    let finding = finding.unwrap_or_else(|| panic!("nothing contains {text:?}: {json:#}"));
    let advice = finding["advice"].as_str().unwrap_or_default();
    (finding["severity"].as_str().unwrap().to_owned(), advice.to_owned())
}

fn report(server: &Server) -> Printed {
    doctor(server, &["report", "--json"])
}

#[test]
fn a_server_in_order_is_healthy() {
    let server = Server::start_with(&["--appendonly", "yes"]);
    let json = report(&server).json();
    for text in ["no memory limit", "append-only file", "its clock is", "have an expiry"] {
        assert_eq!(found(&json, text).0, "ok");
    }
    // A machine under load may reply late.
    let timed =
        |finding: &&Value| finding["finding"].as_str().unwrap().starts_with("a check takes");
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(timed).count(), 2);
    let mut others = findings.iter().filter(|finding| !timed(finding));
    assert!(others.all(|finding| finding["severity"] == "ok"), "{json:#}");
    // Its own keys are deleted.
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
    let printed = doctor(&server, &["report"]);
    assert!(printed.out.contains("ok       redis://127.0.0.1:"), "{printed:?}");
}

#[test]
fn eviction_is_named_with_what_to_change() {
    let server = Server::start_with(&["--maxmemory", "500mb", "--maxmemory-policy", "allkeys-lru"]);
    let printed = doctor(&server, &["report"]);
    assert!(
        printed.out.contains("evicts keys when its memory is full (allkeys-lru)"),
        "{printed:?}"
    );
    assert!(printed.out.contains("\n         -> set maxmemory-policy noeviction"), "{printed:?}");
    assert_eq!(found(&report(&server).json(), "evicts keys").0, "advice");
}

#[test]
fn a_full_server_is_a_problem() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let printed = report(&server);
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_eq!(found(&printed.json(), "OOM").0, "problem");
    // Problems come first.
    assert!(doctor(&server, &["report"]).out.starts_with("PROBLEM"));
}

#[test]
fn keys_that_never_expire_are_found_under_the_prefix_alone() {
    let server = Server::start();
    for key in ["limiter:api:theirs", "other*:api:x", "unrelated"] {
        server.command(&["SET", key, "1"]).unwrap();
    }
    for (prefix, key) in [("limiter", "limiter:api:theirs"), ("other*", "other*:api:x")] {
        let printed = doctor(&server, &["report", "--json", "--prefix", prefix]);
        let (severity, advice) = found(&printed.json(), &format!("such as {key:?}"));
        assert_eq!((printed.code, severity.as_str()), (1, "problem"));
        assert!(advice.contains("use a prefix that nothing else uses"));
    }
    let printed = doctor(&server, &["report", "--json", "--prefix", "*"]);
    assert_eq!(found(&printed.json(), "all of 0 keys").0, "ok");
}

#[test]
fn a_user_who_may_not_run_scripts_is_a_problem_with_what_to_allow() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "web", "on", ">secret", "~*", "&*", "+info", "+time", "+hello"];
    let user = [&user[..], &["+auth", "+ping", "+client", "+select", "+config"]].concat();
    server.command(&user).unwrap();
    let url = server.url().replace("redis://", "redis://web:secret@");
    // No script command, and then all but those that read and write.
    for more in ["+time", "+eval|+evalsha"] {
        let user = ["ACL", "SETUSER", "web"].into_iter().chain(more.split('|'));
        server.command(&user.collect::<Vec<_>>()).unwrap();
        let printed = run(&["report", "--url", &url, "--json"], &[], "");
        let json = printed.json();
        let findings = json["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["server"] == "checks").unwrap();
        assert_eq!((printed.code, &finding["severity"]), (1, &"problem".into()), "{json:#}");
        assert!(finding["advice"].as_str().unwrap().contains("+evalsha"), "{json:#}");
        assert!(!printed.out.contains("secret"));
    }
}

#[test]
fn a_server_that_is_not_there_is_a_finding() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let printed = run(&["report", "--json", "--url", &format!("redis://{nobody}")], &[], "");
    assert_eq!(printed.code, 1);
    let (severity, advice) = found(&printed.json(), "no reply: not connected to");
    assert!(severity == "problem" && advice.contains("check the address"));
}
