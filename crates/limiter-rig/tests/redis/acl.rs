//! Users with few permissions, and users that are none.

use std::time::{Duration, Instant};

use limiter_core::{Cost, ErrorKind, Policy, Quota};
use limiter_redis::{RedisInFlight, RedisLimiter, connect, scripts};
use limiter_rig::server::Server;
use tokio::time::sleep;

use crate::{POLICIES, patient, policy, recover};

#[tokio::test]
async fn a_user_who_may_not_load_scripts_is_served() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "alice", "on", ">s:e/c@ret", "~limiter:*", "+@all", "-script"];
    server.command(&user).unwrap();
    let url = format!("redis://alice:s%3Ae%2Fc%40ret@127.0.0.1:{}", server.port());
    let limiter = patient(&url, 2).await;
    assert_eq!(recover(&limiter).await.0.remaining(), 1);
    // Nor does it have to: the cache of scripts is refilled by the checks.
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(recover(&limiter).await.0.remaining(), 0);
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "alice", "on", ">right", "~*", "+@all"]).unwrap();
    let url = format!("redis://alice:wrong-secret@127.0.0.1:{}", server.port());
    let limiter = patient(&url, 1).await;
    let error = limiter.check("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let message = error.to_string();
    assert!(message.contains("not connected") && message.contains("WRONGPASS"), "{message}");
    for shown in [message, format!("{error:?}"), format!("{limiter:?}")] {
        assert!(!shown.contains("wrong-secret"), "{shown}");
    }
}

/// The users that the chapter for operators has.
const GUIDE: &str = include_str!("../../../limiter-redis/docs/guide/production.md");

/// Runs each script as a user without other rights, and asks as the administrator which the server has.
#[tokio::test]
async fn the_users_in_the_guide_may_run_all_scripts_and_the_runbook() {
    // On a busy machine, a script may be a slow one.
    let server = Server::start_with(&["--slowlog-log-slower-than", "-1"]);
    let (mut users, mut default_is_off) = (0, false);
    for user in GUIDE.lines().filter_map(|line| line.strip_prefix("user ")) {
        let words: Vec<_> = user.split_whitespace().collect();
        if words == ["default", "off"] {
            default_is_off = true;
            continue;
        }
        server.command(&[&["ACL", "SETUSER"], &words[..]].concat()).unwrap();
        users += 1;
    }
    assert!(default_is_off && users == 3, "{users}");
    server.command(&["ACL", "SETUSER", "default", "off"]).unwrap();
    let url = |user: &str| server.url().replace("redis://", &format!("redis://{user}:PASSWORD@"));

    let second = Duration::from_secs(1);
    let connection = connect(&url("limiter")).await.unwrap();
    for text in POLICIES {
        let builder = RedisLimiter::builder(policy(text)).deadline(5 * second).denial_cache(0);
        let limiter = builder.build_on(connection.clone()).unwrap();
        let _ = limiter.peek("key").await.unwrap();
        let taken = limiter.take_up_to("key", Cost::ONE).await.unwrap();
        let _ = limiter.refund(taken.into_receipt().unwrap()).await.unwrap();
        for is_admitted in [true, true, false] {
            let decision = limiter.check("key").await.unwrap();
            assert_eq!(decision.is_admitted(), is_admitted, "{text}");
        }
        limiter.reset("key").await.unwrap();
    }
    let leased = RedisLimiter::builder(Policy::gcra("leased", Quota::per_second(20_000)));
    let leased = leased.deadline(5 * second).lease(true).build_on(connection.clone()).unwrap();
    let uploads = RedisInFlight::builder("uploads", 1).deadline(second / 5).expires_after(second);
    let uploads = uploads.build_on(connection).unwrap();
    let mut permit = Some(uploads.enter("key").await.unwrap());

    let admin = redis::Client::open(url("admin")).unwrap();
    let mut admin = admin.get_multiplexed_async_connection().await.unwrap();
    let begun = Instant::now();
    loop {
        let _ = leased.check("key").await.unwrap();
        let mut exist = redis::cmd("SCRIPT");
        exist.arg("EXISTS");
        let (names, sources): (Vec<_>, Vec<_>) = scripts::all().unzip();
        for source in sources {
            exist.arg(scripts::digest(source));
        }
        let exist: Vec<u8> = exist.query_async(&mut admin).await.unwrap();
        let missing: Vec<_> = names.iter().zip(exist).filter(|(_, exists)| *exists == 0).collect();
        if missing.is_empty() {
            break;
        }
        // The permit has been renewed, so that only its end is missing.
        if missing.len() == 1 {
            drop(permit.take());
        }
        assert!(begun.elapsed() < crate::GIVE_UP_AFTER, "{missing:?}");
        sleep(Duration::from_millis(5)).await;
    }

    for (words, expected) in [
        ("SLOWLOG GET", "[]"),
        ("CONFIG SET maxmemory 1gb", "OK"),
        ("CLIENT PAUSE 1", "OK"),
        ("ACL SETUSER limiter >SECOND <PASSWORD", "OK"),
        // No script runs, and the server has no file.
        ("SCRIPT KILL", "NOTBUSY"),
        ("CONFIG REWRITE", "without a config file"),
    ] {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        let reply = command.query_async::<redis::Value>(&mut admin).await;
        let reply = reply.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        assert!(reply.to_lowercase().contains(&expected.to_lowercase()), "{expected}: {reply}");
    }
}
