//! Every check that a fallback decides has failed at the store: that is counted, and its cause is logged once.

use std::{collections::HashSet, time::Duration};

use limiter_core::{Limiter as _, Policy, Source};
use limiter_redis::{
    RedisLimiter,
    scripts::{CALL_COMMANDS, SCRIPT_COMMANDS},
};
use limiter_rig::{log::Log, server::Server};

use crate::{builder, connect_here, denied, failures, faults::recover, shared};

/// How each log line about a cause begins.
const FAILS: &str = "WARN limiter_redis::outage_log: no decision by the store, so requests get errors, or are decided \
                     without it: ";
const RECOVERED: &str = "INFO limiter_redis::outage_log: the store decides again";

/// How often a server comes and goes.
const OUTAGES: u64 = 40;

/// Commands that neither limiters nor scripts need. The client library may call them.
const OTHER_COMMANDS: [&str; 8] =
    ["SCRIPT", "CLIENT", "INFO", "PING", "HELLO", "SELECT", "CLUSTER", "COMMAND"];

/// Returns the log lines about causes: each once. A busy machine adds a time-out to what a test brings about.
fn fallbacks(log: &Log) -> Vec<String> {
    let lines = log.lines().into_iter().filter(|line| line.starts_with(FAILS));
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() <= 5, "{lines:?}");
    assert!(lines.iter().collect::<HashSet<_>>().len() == lines.len(), "{lines:?}");
    lines
}

/// Makes checks, and returns how many were decided without the store. The limiter counts as many failures.
async fn fall_back(limiter: &RedisLimiter, checks: u64) -> u64 {
    let fallback = shared(limiter, 1);
    let (before, mut without_store, mut admitted) = (failures(limiter), 0, 0);
    for _ in 0..checks {
        let decision = fallback.check(&"key".into()).await.unwrap();
        match decision.source() {
            Source::Local => without_store += 1,
            _ => admitted += u64::from(decision.is_admitted()),
        }
    }
    assert_eq!(failures(limiter) - before, without_store, "{:?}", limiter.counters());
    assert!(admitted <= denied::PERMITS, "{admitted} admitted by the store");
    without_store
}

/// Shows that no check falls back without a log line that names the command.
async fn without_command(url: &str, command: &str, is_needed: bool) {
    let connection = connect_here(url).await;
    let mut fell_back = 0;
    for text in denied::POLICIES {
        let log = Log::start();
        let limiter = RedisLimiter::builder(denied::policy(text))
            .denial_cache(0)
            // Longer than the machine may be busy with other tests.
            .deadline(Duration::from_secs(1))
            .build_on(connection.clone())
            .unwrap();
        let what = format!("{text} without {command}");
        let without_store = fall_back(&limiter, 60).await;
        fell_back += without_store;
        let lines = fallbacks(&log);
        println!("{what}: {without_store}, {lines:?}");
        assert_eq!(lines.is_empty(), without_store == 0, "{what}: {:?}", log.lines());
        let mut first = lines.iter().take(1).map(|line| line.to_uppercase());
        assert!(first.all(|line| line.contains(command)), "{what}: {lines:?}");
    }
    assert!(fell_back > 0 || !is_needed, "{command}");
}

fn commands() -> impl Iterator<Item = (&'static str, bool)> {
    let calls = CALL_COMMANDS.iter().map(|command| (*command, true));
    // Some are called by some scripts only, and never if a key has its expiry.
    let in_scripts = SCRIPT_COMMANDS.iter().map(|command| (*command, false));
    calls.chain(in_scripts).chain(OTHER_COMMANDS.map(|command| (command, false)))
}

// On one thread, as all tests here, because the log is captured by thread.
#[tokio::test]
async fn no_check_falls_back_in_silence_without_a_command_that_was_renamed() {
    // A test server is ready once it replies to INFO.
    for (command, is_needed) in commands().filter(|(command, _)| *command != "INFO") {
        let server = Server::start_with(&["--rename-command", command, ""]);
        without_command(&server.url(), command, is_needed).await;
    }
}

#[tokio::test]
async fn no_check_falls_back_in_silence_without_a_command_that_is_denied() {
    for (command, is_needed) in commands() {
        let server = Server::start();
        let denied = format!("-{}", command.to_lowercase());
        let user = ["ACL", "SETUSER", "alice", "on", ">secret", "~*", "+@all", &denied];
        server.command(&user).unwrap();
        let url = format!("redis://alice:secret@127.0.0.1:{}", server.port());
        without_command(&url, command, is_needed).await;
    }
}

/// 1,000 of 2 an hour were once admitted, without a log line. Its replies are errors, which open no circuit breaker.
#[tokio::test]
async fn a_server_without_evalsha_leaves_each_check_to_the_share() {
    for command in CALL_COMMANDS {
        let server = Server::start_with(&["--rename-command", command, ""]);
        let limiter = builder(2).build_on(connect_here(&server.url()).await).unwrap();
        assert_eq!(fall_back(&limiter, 100).await, 100);
        let counters = limiter.counters();
        assert_eq!((counters.unavailable, counters.breaker_opened), (100, 0));
        assert_eq!((counters.unexpected, counters.undetermined), (0, 0), "{counters:?}");
    }
}

/// Each cause is logged once, and its end.
#[tokio::test]
async fn each_cause_is_logged_once_and_so_is_its_end() {
    let primary = Server::start();
    let port = primary.port().to_string();
    let key = "limiter:{skey}:test";
    let plant = "redis.call('DEL', KEYS[1]) return redis.call('SADD', KEYS[1], 1)";
    // The words of the log line, and what begins and ends the cause.
    let causes: [(&str, &[&str], &[&str]); 4] = [
        (
            "OOM command not allowed",
            &["CONFIG", "SET", "maxmemory", "1"],
            &["CONFIG", "SET", "maxmemory", "0"],
        ),
        ("READONLY ", &["REPLICAOF", "127.0.0.1", &port], &["REPLICAOF", "NO", "ONE"]),
        ("WRONGTYPE ", &["EVAL", plant, "1", key], &["DEL", key]),
        (
            "NOPERM",
            &["ACL", "SETUSER", "default", "-evalsha"],
            &["ACL", "SETUSER", "default", "+evalsha"],
        ),
    ];
    for (cause, begin, end) in causes {
        let server = Server::start();
        let limiter = builder(1_000_000).denial_cache(0);
        let limiter = limiter.build_on(connect_here(&server.url()).await).unwrap();
        let _ = recover(&limiter).await;
        let log = Log::start();
        server.command(begin).unwrap();
        let (fallback, mut without_store) = (shared(&limiter, 1), 0);
        for _ in 0..200 {
            let source = fallback.check(&"key".into()).await.unwrap().source();
            without_store += u64::from(source == Source::Local);
        }
        assert!(without_store > 150, "{cause}: {without_store}");
        let lines = fallbacks(&log);
        let about = lines.iter().filter(|line| line.contains(cause));
        assert_eq!(about.count(), 1, "{cause}: {lines:?}");
        assert!(!log.lines().iter().any(|line| line.starts_with(RECOVERED)), "{cause}");

        server.command(end).unwrap();
        let _ = recover(&limiter).await;
        let ends = log.lines().iter().filter(|line| line.starts_with(RECOVERED)).count();
        assert_eq!(ends, 1, "{cause}: {:?}", log.lines());
    }
}

#[tokio::test]
async fn a_server_that_is_silent_or_down_is_logged() {
    for kills in [false, true] {
        let mut server = Server::start();
        let limiter = builder(1_000_000).build_on(connect_here(&server.url()).await).unwrap();
        let fallback = shared(&limiter, 1);
        let _ = recover(&limiter).await;
        let log = Log::start();
        if kills {
            server.kill();
        } else {
            server.pause();
        }
        while limiter.counters().short_circuited < 100 {
            assert_eq!(fallback.check(&"key".into()).await.unwrap().source(), Source::Local);
        }
        let lines = fallbacks(&log);
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}

/// A failure under a handle's policy is logged with that policy.
#[tokio::test]
async fn a_leasing_limiter_and_its_handles_are_logged_once_together() {
    let mut server = Server::start();
    let policy = Policy::parse("test", "100000/s").unwrap();
    let limiter = RedisLimiter::builder(policy)
        .lease(true)
        .build_on(connect_here(&server.url()).await)
        .unwrap();
    let _ = recover(&limiter).await;
    let log = Log::start();
    server.kill();
    let fallback = shared(&limiter, 1);
    let premium = fallback.with_policy(&Policy::parse("premium", "200000/s").unwrap()).unwrap();
    let mut without_store = 0;
    for limiter in [&*premium, &fallback] {
        for _ in 0..50 {
            let source = limiter.check(&"other".into()).await.unwrap().source();
            without_store += u64::from(source == Source::Local);
        }
    }
    assert!(without_store > 0 && failures(&limiter) >= without_store, "{without_store}");
    let lines = fallbacks(&log);
    assert!(lines[0].contains(r#"policy="premium""#), "{lines:?}");
}

/// Each outage has a key of its own, of which the server admits some permits before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_that_come_and_go_admit_no_key_more_than_its_quota() {
    const QUOTA: u64 = 10;
    let server = Server::start();
    let limiter = builder(QUOTA).denial_cache(0).connect(&server.url()).await.unwrap();
    let fallback = shared(&limiter, 1);
    for outage in 0..OUTAGES {
        let _ = recover(&limiter).await;
        let key = &format!("{outage}").into();
        let (mut by_server, mut in_memory) = (0, 0);
        while by_server + in_memory < outage % QUOTA {
            let decision = fallback.check(key).await.unwrap();
            assert!(decision.is_admitted(), "{outage}: {by_server}, {in_memory}");
            by_server += u64::from(decision.source() == Source::State);
            in_memory += u64::from(decision.source() == Source::Local);
        }
        server.pause();
        while let decision = fallback.check(key).await.unwrap()
            && decision.is_admitted()
        {
            assert_eq!(decision.source(), Source::Local);
            in_memory += 1;
        }
        assert_eq!(by_server + in_memory, QUOTA, "{outage}: {by_server}, {in_memory}");
        server.resume();
    }
}
