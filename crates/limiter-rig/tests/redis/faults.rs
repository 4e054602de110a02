//! A slow, absent or confused server: each check ends in time, with an error that says whether it
//! may have been charged.

use std::{
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::{Decision, Error, ErrorKind, Source};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::{log::Log, server::Server};
use tokio::time::timeout;

use crate::{GIVE_UP_AFTER, PATIENT, builder, connect_here, limiter, load_scripts, patient};

/// Makes a check, which must not hang.
async fn check(limiter: &RedisLimiter) -> Result<Decision, Error> {
    timeout(GIVE_UP_AFTER, limiter.check("key")).await.unwrap()
}

/// Checks until the server answers.
pub(crate) async fn recover(limiter: &RedisLimiter) -> (Decision, Duration) {
    let start = Instant::now();
    while start.elapsed() < GIVE_UP_AFTER {
        if let Ok(decision) = check(limiter).await {
            return (decision, start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the server was not found again")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_hangs_no_check() {
    let server = Server::start();
    // The server needs the scripts to execute the calls when it goes on.
    load_scripts(&server);
    let connection = connect(&server.url()).await.unwrap();
    let limiter = builder(3).build_on(connection.clone()).unwrap();
    let patient = builder(3).deadline(PATIENT).build_on(connection).unwrap();
    let first = check(&patient).await.unwrap();
    assert_eq!((first.is_admitted(), first.remaining()), (true, 2));

    server.pause();
    for _ in 0..30 {
        for result in join_all((0..10).map(|_| check(&limiter))).await {
            // At first; once the connection was given up, nothing is sent any more.
            let kind = result.unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::Undetermined | ErrorKind::Unavailable), "{kind:?}");
        }
    }

    server.resume();
    let (decision, _) = recover(&limiter).await;
    // What was sent while the server stood still may have been charged, once each: the limit holds.
    assert_eq!((decision.burst(), decision.is_admitted()), (3, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_found_again() {
    let mut server = Server::start();
    let limiter = patient(&server.url(), 1).await;
    let (first, _) = recover(&limiter).await;
    assert!(first.is_admitted());

    server.restart();
    // It kept nothing, and the script is gone with the keys.
    let (again, _) = recover(&limiter).await;
    assert!(again.is_admitted());
    let (last, _) = recover(&limiter).await;
    assert!(!last.is_admitted());
}

#[tokio::test]
async fn an_absent_server_is_an_error_in_time_from_the_first_check() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let limiter = patient(&format!("redis://{nobody}"), 1).await;
    for _ in 0..5 {
        let error = check(&limiter).await.unwrap_err().to_string();
        let refused = error.ends_with(": Connection refused");
        assert!(refused || error.contains("is not called"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_charges_each_check_at_most_once() {
    let server = Arc::new(Server::start());
    let limiter = limiter(&server.url(), 1_000).await;
    let (mut made, mut lost, mut taken) = (0, 0, 0);
    for _ in 0..20 {
        // Where the cut falls among these is up to chance.
        let cut = tokio::task::spawn_blocking({
            let server = Arc::clone(&server);
            move || server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap()
        });
        for _ in 0..20 {
            made += 1;
            match check(&limiter).await {
                Ok(decision) => taken = decision.burst() - decision.remaining(),
                Err(_) => lost += 1,
            }
        }
        cut.await.unwrap();
        while check(&limiter).await.is_err() {
            (made, lost) = (made + 1, lost + 1);
        }
        made += 1;
    }
    let last = check(&limiter).await.unwrap();
    taken = taken.max(last.burst() - last.remaining());
    made += 1;
    assert!((made - lost..=made).contains(&taken), "{taken} taken by {made} checks, {lost} lost");
}

#[tokio::test]
async fn a_foreign_value_is_an_error_and_is_left_alone() {
    let server = Server::start();
    let limiter = limiter(&server.url(), 1).await;
    server.command(&["RPUSH", "limiter:{skey}:test", "theirs"]).unwrap();
    let error = loop {
        match check(&limiter).await {
            // Not connected yet.
            Err(error) if error.kind() == ErrorKind::Undetermined => {}
            result => break result.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    // Redis 6.2 has words of its own between the two.
    let message = error.to_string();
    assert!(message.starts_with("policy \"test\": Redis: "), "{message}");
    assert!(message.contains("WRONGTYPE "), "{message}");
    assert_eq!(server.command(&["LLEN", "limiter:{skey}:test"]).unwrap(), ":1");
}

#[tokio::test]
async fn a_full_server_charges_nothing() {
    let server = Server::start();
    let limiter = patient(&server.url(), 2).await;
    let (first, _) = recover(&limiter).await;
    assert_eq!(first.remaining(), 1);

    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = check(&limiter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(check(&limiter).await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn an_outage_is_logged_once_with_its_cause() {
    let log = Log::start();
    let mut server = Server::start();
    let url = server.url();
    let limiter = builder(1).deadline(PATIENT).build_on(connect_here(&url).await).unwrap();
    let is_by_store = |decision: Decision| decision.source() == Source::State;
    assert!(limiter.check("key").await.is_ok_and(is_by_store));
    assert_eq!(log.lines(), [""; 0]);

    server.kill();
    while limiter.counters().short_circuited < 100 {
        assert!(!limiter.check("key").await.is_ok_and(is_by_store));
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let begin = "WARN limiter_redis::outage_log: no decision by the store, so requests ";
    assert!(lines[0].starts_with(begin), "{lines:?}");

    server.restart();
    while !is_by_store(recover(&limiter).await.0) {}
    let lines = log.lines();
    let end = "INFO limiter_redis::outage_log: the store decides again";
    assert!(lines.len() == 2 && lines[1].starts_with(end), "{lines:?}");
}
