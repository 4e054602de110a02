//! `report` says what is wrong with a server, and what to change.

use limiter_redis::scripts::{CALL_COMMANDS, SCRIPT_COMMANDS};
use limiter_rig::server::{Cluster, Server};

use crate::{Printed, doctor, run};

/// Returns the severity and the advice of the finding that contains `text`.
fn found(printed: &Printed, text: &str) -> (String, String) {
    let mut lines = printed.out.lines();
    let finding = lines.find(|line| line.contains(text));
    let finding = finding.unwrap_or_else(|| panic!("nothing contains {text:?}: {}", printed.out));
    let advice = lines.next().and_then(|line| line.trim_start().strip_prefix("-> "));
    let severity = finding.split(' ').next().unwrap_or_default();
    (severity.to_owned(), advice.unwrap_or_default().to_owned())
}

/// Waits until something is so.
fn eventually(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it never is");
}

fn report(server: &Server) -> Printed {
    doctor(server, &["report"])
}

#[test]
fn a_server_in_order_is_healthy() {
    let server = Server::start_with(&["--appendonly", "yes", "--maxmemory", "500mb"]);
    let printed = report(&server);
    for text in ["evicts no keys, and uses ", "append-only file", "its clock is", "have an expiry"]
    {
        assert_eq!(found(&printed, text).0, "ok");
    }
    // A machine under load may reply late.
    let (timed, others): (Vec<_>, Vec<_>) =
        printed.out.lines().partition(|line| line.contains("): a check takes"));
    assert_eq!(timed.len(), 2, "{printed:?}");
    let mut others = others.iter().filter(|line| !line.starts_with("         -> "));
    assert!(others.all(|line| line.starts_with("ok ")), "{printed:?}");
    // Its own keys are deleted.
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
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
    assert_eq!(found(&printed, "evicts keys").0, "advice");
}

#[test]
fn a_server_without_a_memory_limit_is_advised_to_set_one() {
    let server = Server::start();
    let printed = report(&server);
    // The limits hold, so the exit code reports no problem.
    assert_eq!(printed.code, 0, "{printed:?}");
    let (severity, advice) = found(&printed, "has no memory limit");
    assert_eq!(severity, "advice");
    assert!(advice.starts_with("set maxmemory ") && advice.contains("noeviction"), "{advice}");
    server.command(&["CONFIG", "SET", "maxmemory", "500mb"]).unwrap();
    assert!(!report(&server).out.contains("no memory limit"));
}

#[test]
fn memory_is_compared_with_its_limit() {
    let server = Server::start_with(&["--maxmemory", "500mb"]);
    assert_eq!(found(&report(&server), " % of its limit of 500 MiB of memory").0, "ok");
    for policy in ["noeviction", "allkeys-lru"] {
        server.command(&["CONFIG", "SET", "maxmemory", "1024"]).unwrap();
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).unwrap();
        let printed = report(&server);
        assert_ne!(found(&printed, "iB, more than its limit of 1 KiB of memory").0, "ok");
        assert!(!printed.out.contains("% of its"), "{printed:?}");
    }
}

#[test]
fn a_full_server_is_a_problem() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let printed = report(&server);
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_eq!(found(&printed, "OOM").0, "PROBLEM");
    assert_eq!(found(&printed, "is full, and uses ").0, "PROBLEM");
    // Problems are listed first.
    assert!(doctor(&server, &["report"]).out.starts_with("PROBLEM"));
}

/// As after a reshard that was interrupted.
#[test]
fn slots_that_have_not_moved_to_the_end_are_a_problem() {
    let cluster = Cluster::start();
    let of_cluster = || run(&["--url", &cluster.url(), "report"], &[], "");
    assert!(!of_cluster().out.contains("TRYAGAIN"));
    let to = (cluster.owner(7) + 1) % 3;
    drop(cluster.begin_move(7, to));
    let printed = of_cluster();
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_eq!(found(&printed, "slot 7 has not moved to the end").0, "PROBLEM");
}

#[test]
fn a_cluster_that_refuses_commands_is_a_problem() {
    let cluster = Cluster::start();
    let of_cluster = || run(&["--url", &cluster.url(), "report"], &[], "");
    assert!(!of_cluster().out.contains("cluster_state"));
    let node = cluster.node(0);
    node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "yes"]).unwrap();
    // Its owner first, so that it does not claim it again.
    for node in 0..3 {
        cluster.node(node).command(&["CLUSTER", "DELSLOTS", "7"]).unwrap();
    }
    eventually(|| node.command(&["CLUSTER", "INFO"]).unwrap().contains("cluster_state:fail"));
    let printed = of_cluster();
    assert_eq!(printed.code, 1, "{printed:?}");
    let (severity, advice) = found(&printed, "cluster_state is fail: slots have no primary");
    assert!(severity == "PROBLEM" && advice.contains("--cluster check"), "{printed:?}");
}

#[test]
fn a_cluster_that_a_user_may_not_examine_is_named() {
    let cluster = Cluster::start();
    for node in 0..3 {
        let user = ["ACL", "SETUSER", "default", "-cluster", "+cluster|slots", "+cluster|nodes"];
        cluster.node(node).command(&user).unwrap();
    }
    let printed = run(&["--url", &cluster.url(), "report"], &[], "");
    let (severity, advice) =
        found(&printed, "the user may not run CLUSTER INFO, so the cluster is");
    assert_eq!((severity.as_str(), advice.as_str()), ("advice", "allow the user +cluster|info"));
}

#[test]
fn a_replica_that_does_not_reply_is_named() {
    let primary = Server::start();
    let replica = Server::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    let is = |text: &str| report(&primary).out.contains(text);
    let name = format!("its replica 127.0.0.1:{}", replica.port());
    eventually(|| primary.command(&["INFO", "replication"]).unwrap().contains("state=online"));
    replica.pause();
    eventually(|| is(&format!("advice   {}: {name} has not replied for ", primary.url())));
    replica.resume();
    eventually(|| !is(&name));
}

#[test]
fn keys_that_never_expire_are_found_under_the_prefix_alone() {
    let server = Server::start();
    for key in ["limiter:api:theirs", "other*:api:x", "unrelated"] {
        server.command(&["SET", key, "1"]).unwrap();
    }
    for (prefix, key) in [("limiter", "limiter:api:theirs"), ("other*", "other*:api:x")] {
        let printed = doctor(&server, &["report", "--prefix", prefix]);
        let (severity, advice) = found(&printed, &format!("such as {key:?}"));
        assert_eq!((printed.code, severity.as_str()), (1, "PROBLEM"));
        assert!(advice.contains("use a prefix that nothing else uses"));
    }
    let printed = doctor(&server, &["report", "--prefix", "*"]);
    assert_eq!(found(&printed, "all of 0 keys").0, "ok");
}

#[test]
fn keys_of_limiters_that_lost_their_expiry_are_counted() {
    let server = Server::start();
    for (subject, expires) in [("alice", true), ("bob", false)] {
        let key = format!("limiter:{{s{subject}}}:api");
        server.command(&["HSET", &key, "gcra.60s", "1767225618000000"]).unwrap();
        if expires {
            server.command(&["PEXPIRE", &key, "60000"]).unwrap();
        }
    }
    let list = "limiter:{sbob}:api:sliding-log.60s";
    server.command(&["RPUSH", list, "1767225600000000 1 1"]).unwrap();
    server.command(&["SET", "limiter:theirs", "1"]).unwrap();
    let printed = report(&server);
    assert_eq!(printed.code, 1, "{printed:?}");
    let text = "2 of 4 keys that match \"limiter:*\" have no expiry, such as \"limiter:{sbob}:api";
    let (severity, advice) = found(&printed, text);
    assert_eq!(severity, "PROBLEM");
    assert!(
        advice.starts_with("only PERSIST, RESTORE or another program can cause this"),
        "{advice}"
    );
    assert!(advice.ends_with("If the subject is not in use any more, reset it"), "{advice}");
    let text = "1 of 4 keys that match \"limiter:*\" have no expiry, such as \"limiter:theirs\"";
    assert!(found(&printed, text).1.contains("use a prefix that nothing else uses"));
}

/// Returns the report by a user who has only the permissions that `more` adds.
fn report_of_user(server: &Server, more: &[&str]) -> Printed {
    let user =
        ["ACL", "SETUSER", "web", "reset", "on", ">secret", "&*", "+info", "+time", "+hello"];
    let user = [&user[..], &["+auth", "+ping", "+client", "+select", "+config"], more].concat();
    server.command(&user).unwrap();
    let url = server.url().replace("redis://", "redis://web:secret@");
    let printed = run(&["report", "--url", &url], &[], "");
    assert!(printed.code == 1 && !printed.out.contains("secret"), "{printed:?}");
    printed
}

#[test]
fn each_command_that_a_user_may_not_run_is_named() {
    let server = Server::start();
    for command in CALL_COMMANDS.iter().chain(SCRIPT_COMMANDS) {
        let removed = format!("-{}", command.to_lowercase());
        let printed = report_of_user(&server, &["~*", "+@all", &removed]);
        let (severity, advice) = found(&printed, &format!("the user may not run {command}"));
        assert_eq!(
            (severity.as_str(), advice.contains(&removed.replace('-', "+"))),
            ("PROBLEM", true)
        );
    }
    // All but one at once.
    let printed = report_of_user(&server, &["~*", "+lset"]);
    let (_, advice) = found(&printed, "the user may not run EVALSHA, EVAL, PTTL, ");
    assert!(advice.starts_with("allow the user +evalsha +eval +pttl "), "{advice}");
    assert!(advice.ends_with(" on the keys ~limiter:*"), "{advice}");
    // What a user may not delete expires.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(server.command(&["RANDOMKEY"]).unwrap(), "$-1");
}

#[test]
fn a_user_without_the_keys_of_limiters_is_a_problem() {
    let printed = report_of_user(&Server::start(), &["~other:*", "+@all"]);
    let (severity, advice) = found(&printed, "the user may not use the limiters' keys: ");
    assert_eq!(
        (severity.as_str(), advice.as_str()),
        ("PROBLEM", "allow the user the keys ~limiter:*")
    );
}

#[test]
fn each_command_that_a_server_has_under_another_name_is_named() {
    for commands in
        [&["LSET", "LRANGE"][..], &["EVALSHA", "TIME"], &["EVAL"], &["HGET", "UNLINK", "PEXPIRE"]]
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
        let (severity, advice) = found(&printed, &text);
        assert!(severity == "PROBLEM" && advice.contains("rename-command"), "{advice}");
    }
}

#[test]
fn a_server_that_is_not_there_is_a_finding() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let printed = run(&["report", "--url", &format!("redis://{nobody}")], &[], "");
    assert_eq!(printed.code, 1);
    let (severity, advice) = found(&printed, "no reply: not connected to");
    assert!(severity == "PROBLEM" && advice.contains("check the address"));
}
