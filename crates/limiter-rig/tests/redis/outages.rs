//! What is returned, counted and logged while the store can't decide. Which decision follows is the fallback's of
//! limiter-core.

use std::{
    collections::HashSet,
    net::TcpListener,
    time::{Duration, Instant},
};

use limiter_redis::{
    RedisLimiter,
    scripts::{CALL_COMMANDS, SCRIPT_COMMANDS},
};
use limiter_rig::{
    log::Log,
    server::{Cluster, Sentinels, Server},
};
use tokio::time::sleep;

use crate::{
    PATIENT, PERMITS, POLICIES, builder, connect_here, failures, patient, policy, recover,
};

/// How each log line about a cause begins.
const FAILS: &str = "WARN limiter_redis::outage_log: no decision by the store, so requests get errors, or are decided \
                     without it: ";

/// Commands that neither limiters nor scripts need. The client library may call them.
const OTHER_COMMANDS: [&str; 8] =
    ["SCRIPT", "CLIENT", "INFO", "PING", "HELLO", "SELECT", "CLUSTER", "COMMAND"];

/// Returns the log lines about causes: each once. A busy machine adds a time-out to what a test brings about.
fn causes(log: &Log) -> Vec<String> {
    let lines = log.lines().into_iter().filter(|line| line.starts_with(FAILS));
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() <= 5, "{lines:?}");
    assert!(lines.iter().collect::<HashSet<_>>().len() == lines.len(), "{lines:?}");
    lines
}

/// Makes checks without a command, as a user who may not call it, or on a server that does not have it.
async fn check_without(server: &Server, url: &str, command: &str) {
    let is_called = CALL_COMMANDS.contains(&command);
    let is_ours = is_called || SCRIPT_COMMANDS.contains(&command);
    let connection = connect_here(url).await;
    for text in POLICIES {
        let log = Log::start();
        let builder = RedisLimiter::builder(policy(text)).denial_cache(0).deadline(PATIENT);
        let limiter = builder.build_on(connection.clone()).unwrap();
        let what = format!("{text} without {command}");
        let (mut admitted, mut failed) = (0, 0);
        for _ in 0..20 {
            match limiter.check("key").await {
                Ok(decision) => admitted += u64::from(decision.is_admitted()),
                Err(error) => {
                    let error = error.to_string().to_uppercase();
                    assert!(!is_ours || error.contains(command), "{what}: {error}");
                    failed += 1;
                }
            }
        }
        assert!(admitted <= PERMITS, "{what}: {admitted}");
        assert_eq!(failures(&limiter), failed, "{what}: {:?}", limiter.counters());
        if is_called {
            // The replies are errors, which open no breaker.
            let counters = limiter.counters();
            assert_eq!((counters.unavailable, counters.breaker_opened), (20, 0), "{what}");
        }
        let lines = causes(&log);
        assert_eq!(lines.is_empty(), failed == 0, "{what}: {:?}", log.lines());
        let mut first = lines.iter().take(1).map(|line| line.to_uppercase());
        assert!(first.all(|line| line.contains(command)), "{what}: {lines:?}");
        for key in limiter.stored_keys("key").unwrap() {
            let key = String::from_utf8(key).unwrap();
            let life = server.command(&["PTTL", &key]);
            assert!(life.is_ok_and(|life| life != ":-1") || command == "PTTL", "{what}: {key}");
        }
    }
}

/// Once 1,000 of 2 an hour were admitted without a log line. No check fails in silence, none is admitted beyond the limit,
/// and no key is left without an expiry.
// On one thread, because the log is captured by thread.
#[tokio::test]
async fn a_missing_command_is_named_by_the_error_and_the_log() {
    let all = [CALL_COMMANDS, SCRIPT_COMMANDS, &OTHER_COMMANDS];
    for command in all.into_iter().flatten().copied() {
        let server = Server::start();
        let denied = format!("-{}", command.to_lowercase());
        let user = ["ACL", "SETUSER", "alice", "on", ">secret", "~*", "+@all", &denied];
        server.command(&user).unwrap();
        let url = format!("redis://alice:secret@127.0.0.1:{}", server.port());
        check_without(&server, &url, command).await;
        // A test server is ready once it replies to INFO.
        if command != "INFO" {
            let server = Server::start_with(&["--rename-command", command, ""]);
            check_without(&server, &server.url(), command).await;
        }
    }
}

#[tokio::test]
async fn an_absent_server_is_an_error_in_time_from_the_first_check() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let limiter = patient(&format!("redis://{nobody}"), 1).await;
    for _ in 0..5 {
        let error = limiter.check("key").await.unwrap_err().to_string();
        let refused = error.ends_with(": Connection refused");
        assert!(refused || error.contains("is not called"), "{error}");
    }
}

/// The servers accept connections, and do not reply for seconds.
#[tokio::test]
async fn a_slow_start_is_logged_once() {
    let cluster = Cluster::start();
    let set = Sentinels::start();
    let server = Server::start();
    for (url, servers) in [
        (server.url(), vec![&server]),
        (cluster.url(), (0..3).map(|node| cluster.node(node)).collect()),
        (set.url(), (0..3).map(|sentinel| set.sentinel(sentinel)).chain([set.server(0)]).collect()),
    ] {
        servers.iter().for_each(|server| server.pause());
        let log = Log::start();
        let limiter = builder(1_000).build_on(connect_here(&url).await).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            let _ = limiter.check("key").await;
            sleep(Duration::from_millis(5)).await;
        }
        // A busy machine may leave a check no time before the outage has a cause, which is another line.
        let is_busy = |line: &&String| line.contains("no time was left");
        let count = |level: &str| {
            let lines = log.lines();
            lines.iter().filter(|line| line.starts_with(level) && !is_busy(line)).count()
        };
        assert_eq!((count("WARN"), count("INFO")), (1, 0), "{:#?}", log.lines());
        servers.iter().for_each(|server| server.resume());
        let _ = recover(&limiter).await;
        assert_eq!((count("WARN"), count("INFO")), (1, 1), "{:#?}", log.lines());
    }
}
