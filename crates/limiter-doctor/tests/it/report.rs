//! `report` says what is wrong with a server, and what to change.

use limiter_redis::scripts::{CALL_COMMANDS, SCRIPT_COMMANDS};
use limiter_rig::server::{Cluster, Server};
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
    let server = Server::start_with(&["--appendonly", "yes", "--maxmemory", "500mb"]);
    let json = report(&server).json();
    for text in ["evicts no keys, and uses ", "append-only file", "its clock is", "have an expiry"]
    {
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
fn a_server_without_a_memory_limit_is_advised_to_set_one() {
    let server = Server::start();
    let printed = report(&server);
    // The limits hold, so the exit code reports no problem.
    assert_eq!(printed.code, 0, "{printed:?}");
    let (severity, advice) = found(&printed.json(), "has no memory limit");
    assert_eq!(severity, "advice");
    assert!(advice.starts_with("set maxmemory ") && advice.contains("noeviction"), "{advice}");
    server.command(&["CONFIG", "SET", "maxmemory", "500mb"]).unwrap();
    assert!(!report(&server).out.contains("no memory limit"));
}

#[test]
fn memory_is_compared_with_its_limit() {
    let server = Server::start_with(&["--maxmemory", "500mb"]);
    let json = report(&server).json();
    assert_eq!(found(&json, " % of its limit of 500 MiB of memory").0, "ok");
    for policy in ["noeviction", "allkeys-lru"] {
        server.command(&["CONFIG", "SET", "maxmemory", "1024"]).unwrap();
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).unwrap();
        let printed = report(&server);
        assert_ne!(found(&printed.json(), "iB, more than its limit of 1 KiB of memory").0, "ok");
        assert!(!printed.out.contains("% of its"), "{printed:?}");
    }
}

#[test]
fn a_full_server_is_a_problem() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let printed = report(&server);
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_eq!(found(&printed.json(), "OOM").0, "problem");
    assert_eq!(found(&printed.json(), "is full, and uses ").0, "problem");
    // Problems are listed first.
    assert!(doctor(&server, &["report"]).out.starts_with("PROBLEM"));
}

/// As after a reshard that was interrupted.
#[test]
fn slots_that_have_not_moved_to_the_end_are_a_problem() {
    let cluster = Cluster::start();
    let of_cluster = || run(&["--url", &cluster.url(), "report", "--json"], &[], "");
    assert!(!of_cluster().out.contains("TRYAGAIN"));
    let to = (cluster.owner(7) + 1) % 3;
    drop(cluster.begin_move(7, to));
    let printed = of_cluster();
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_eq!(found(&printed.json(), "slot 7 has not moved to the end").0, "problem");
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
fn keys_of_limiters_that_lost_their_expiry_are_counted() {
    let server = Server::start();
    let state = "1767225618000000 6000000 120000000";
    server.command(&["SET", "limiter:{salice}:api:gcra", state, "PX", "60000"]).unwrap();
    server.command(&["SET", "limiter:{sbob}:api:gcra", state]).unwrap();
    let head = "1767225600000000 1 1 10 1 60000000 60000000";
    server.command(&["RPUSH", "limiter:{sbob}:api:sliding-log.3", head]).unwrap();
    server.command(&["SET", "limiter:theirs", "1"]).unwrap();
    let printed = report(&server);
    assert_eq!(printed.code, 1, "{printed:?}");
    let text = "2 of 4 keys that match \"limiter:*\" have no expiry, such as \"limiter:{sbob}:api:";
    let (severity, advice) = found(&printed.json(), text);
    assert_eq!(severity, "problem");
    assert!(
        advice.starts_with("only PERSIST, RESTORE or another program can cause this"),
        "{advice}"
    );
    assert!(advice.ends_with("If the subject is not in use any more, reset it"), "{advice}");
    let text = "1 of 4 keys that match \"limiter:*\" have no expiry, such as \"limiter:theirs\"";
    assert!(found(&printed.json(), text).1.contains("use a prefix that nothing else uses"));
}

/// Returns the report by a user who has only the permissions that `more` adds.
fn report_of_user(server: &Server, more: &[&str]) -> Value {
    let user =
        ["ACL", "SETUSER", "web", "reset", "on", ">secret", "&*", "+info", "+time", "+hello"];
    let user = [&user[..], &["+auth", "+ping", "+client", "+select", "+config"], more].concat();
    server.command(&user).unwrap();
    let url = server.url().replace("redis://", "redis://web:secret@");
    let printed = run(&["report", "--url", &url, "--json"], &[], "");
    assert!(printed.code == 1 && !printed.out.contains("secret"), "{printed:?}");
    printed.json()
}

#[test]
fn each_command_that_a_user_may_not_run_is_named() {
    let server = Server::start();
    for command in CALL_COMMANDS.iter().chain(SCRIPT_COMMANDS) {
        let removed = format!("-{}", command.to_lowercase());
        let json = report_of_user(&server, &["~*", "+@all", &removed]);
        let (severity, advice) = found(&json, &format!("the user may not run {command}"));
        assert_eq!(
            (severity.as_str(), advice.contains(&removed.replace('-', "+"))),
            ("problem", true)
        );
    }
    // All but one at once.
    let json = report_of_user(&server, &["~*", "+lset"]);
    let (_, advice) = found(&json, "the user may not run EVALSHA, EVAL, GET, SET, DEL, ");
    assert!(advice.starts_with("allow the user +evalsha +eval +get +set "), "{advice}");
    assert!(advice.ends_with(" on the keys ~limiter:*"), "{advice}");
    // What a user may not delete expires.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(server.command(&["RANDOMKEY"]).unwrap(), "$-1");
}

#[test]
fn a_user_without_the_keys_of_limiters_is_a_problem() {
    let json = report_of_user(&Server::start(), &["~other:*", "+@all"]);
    let (severity, advice) = found(&json, "the user may not use the limiters' keys: ");
    assert_eq!(
        (severity.as_str(), advice.as_str()),
        ("problem", "allow the user the keys ~limiter:*")
    );
}

#[test]
fn each_command_that_a_server_has_under_another_name_is_named() {
    for commands in
        [&["LSET", "LRANGE"][..], &["EVALSHA", "TIME"], &["EVAL"], &["SET", "DEL", "PEXPIRE"]]
    {
        let names: Vec<_> = commands.iter().map(|command| format!("renamed-{command}")).collect();
        let renamed = commands.iter().zip(&names);
        let renamed = renamed.flat_map(|(command, name)| ["--rename-command", command, name]);
        let server = Server::start_with(&renamed.collect::<Vec<_>>());
        let printed = report(&server);
        assert_eq!(printed.code, 1, "{printed:?}");
        let in_order = CALL_COMMANDS.iter().chain(SCRIPT_COMMANDS);
        let in_order: Vec<_> = in_order.filter(|name| commands.contains(name)).copied().collect();
        let text = format!("the server has no {}", in_order.join(", "));
        let (severity, advice) = found(&printed.json(), &text);
        assert!(severity == "problem" && advice.contains("rename-command"), "{advice}");
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
