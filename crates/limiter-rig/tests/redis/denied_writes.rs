//! A user who may not call one of the commands by which scripts write: what needs it fails and names the command, no
//! permit is admitted beyond the limit, and no key stays without an expiry. What failed may have charged, or left a log
//! that counts as full.

use std::time::Duration;

use futures::future::join_all;
use limiter_core::{Algorithm, Cost, Error, ErrorKind, Policy};
use limiter_redis::{RedisLimiter, scripts::SCRIPT_COMMANDS};
use limiter_rig::server::Server;

use crate::{connect_here, key_of};

const WRITES: [&str; 8] = ["HSET", "HDEL", "UNLINK", "PEXPIRE", "LSET", "RPUSH", "LTRIM", "LREM"];

/// In microseconds. Slots of some logs count for a tenth longer.
const DAY: u64 = 86_400_000_000;

fn policies() -> impl Iterator<Item = String> {
    // Three in each slot, whatever the time.
    let others = ["30/d by sub-windows 10 slots paced", "3/d, 5/2d by sliding-log"];
    let of_each = Algorithm::one_of_each().map(|algorithm| format!("3/d by {algorithm}"));
    of_each.chain(others.map(str::to_owned))
}

/// A server, and a user of it whose commands are denied and allowed.
struct Rig {
    server: Server,
    url: String,
}

impl Rig {
    fn start() -> Self {
        let server = Server::start();
        server.command(&["ACL", "SETUSER", "alice", "on", ">secret", "~*", "+@all"]).unwrap();
        let url = format!("redis://alice:secret@127.0.0.1:{}", server.port());
        Self { server, url }
    }

    fn allow(&self) {
        self.server.command(&["ACL", "SETUSER", "alice", "+@all"]).unwrap();
    }

    fn deny(&self, commands: &[&str]) {
        let denied: Vec<_> = commands.iter().map(|it| format!("-{}", it.to_lowercase())).collect();
        let user = ["ACL", "SETUSER", "alice", "+@all"].into_iter();
        let words: Vec<_> = user.chain(denied.iter().map(String::as_str)).collect();
        self.server.command(&words).unwrap();
    }

    /// Returns a limiter of the user's.
    async fn limiter(&self, text: &str) -> RedisLimiter {
        let limits: Vec<_> =
            text.split(", ").map(|limit| Policy::parse(limit, limit).unwrap()).collect();
        let policy = match limits.as_slice() {
            [_] => Policy::parse("test", text).unwrap(),
            _ => Policy::all_of("test", limits).unwrap(),
        };
        let builder = RedisLimiter::builder(policy);
        // The circuit breaker would hide what follows.
        let builder = builder.denial_cache(0);
        builder.deadline(Duration::from_secs(5)).build_on(connect_here(&self.url).await).unwrap()
    }

    /// Returns the elements of a list.
    fn elements(&self, key: &str) -> Vec<String> {
        let reply = self.server.command(&["LRANGE", key, "0", "-1"]).unwrap();
        let is_element = |line: &&str| !line.starts_with(['*', '$']);
        reply.lines().filter(is_element).map(str::to_owned).collect()
    }

    /// Replaces what is stored of a subject by a list of these elements, or by nothing.
    fn plant(&self, key: &str, elements: &[String]) {
        self.server.command(&["FLUSHALL"]).unwrap();
        if !elements.is_empty() {
            let elements = elements.iter().map(String::as_str);
            let words: Vec<_> = ["RPUSH", key].into_iter().chain(elements).collect();
            self.server.command(&words).unwrap();
            self.server.command(&["PEXPIRE", key, "3600000"]).unwrap();
        }
    }

    /// Returns how many permits are left, by a user who may call everything. The user may do so again.
    async fn left(&self, limiter: &RedisLimiter) -> u64 {
        self.allow();
        limiter.peek("key").await.unwrap().remaining()
    }

    /// Shows that all keys have an expiry.
    fn assert_all_expire(&self, limiter: &RedisLimiter, what: &str) {
        for key in limiter.stored_keys("key").unwrap() {
            let key = String::from_utf8(key).unwrap();
            assert_ne!(self.server.command(&["PTTL", &key]).unwrap(), ":-1", "{what}: {key}");
        }
    }

    /// Returns the server's time in microseconds.
    fn now(&self) -> u64 {
        let time = self.server.command(&["TIME"]).unwrap();
        let parts: Vec<u64> = time.lines().filter_map(|line| line.parse().ok()).collect();
        parts[0] * 1_000_000 + parts[1]
    }
}

/// Returns lists of logs of a span: fresh, in the present slot, before it, with ended entries, ended altogether, and damaged.
fn lists(now: u64, span: u64) -> Vec<(&'static str, Vec<String>)> {
    let entry = |ago: u64| format!("{} 1", now - ago);
    let head = |ago: u64, sum: u64| format!("{} {sum}", entry(ago));
    let ended = [5, 4, 3].map(|spans| entry(spans * span));
    vec![
        ("fresh", Vec::new()),
        ("in the slot", vec![head(0, 1)]),
        ("before the slot", vec![head(span / 3, 2), entry(span / 2)]),
        ("with ended entries", [&[head(span / 3, 5)][..], &ended, &[entry(span / 2)]].concat()),
        ("ended", [&[head(2 * span, 4)][..], &ended].concat()),
        ("damaged", vec!["nonsense".to_owned(), entry(span / 2)]),
    ]
}

fn assert_denied(error: &Error, command: &str, what: &str) {
    // It may have written before.
    assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}");
    assert!(error.to_string().contains(command), "{what}: {error}");
}

#[test]
fn the_commands_that_write_are_those_of_scripts() {
    let reads = ["TIME", "PTTL", "HGET", "HMGET", "HGETALL", "LLEN", "LINDEX", "LRANGE"];
    let all: Vec<_> = SCRIPT_COMMANDS.iter().filter(|it| !reads.contains(*it)).collect();
    assert_eq!(all.len(), WRITES.len());
    assert!(all.iter().all(|command| WRITES.contains(command)), "{all:?}");
}

/// A log's script once dropped ended entries and wrote the newest one before a denied RPUSH.
#[tokio::test]
async fn a_check_or_reservation_that_fails_admits_nothing_and_leaves_no_key_for_ever() {
    let rig = Rig::start();
    for text in policies() {
        let limiter = rig.limiter(&text).await;
        let key = key_of(&limiter, "key");
        rig.allow();
        let _ = limiter.check("key").await.unwrap();
        let is_list = rig.server.command(&["TYPE", &key]).unwrap() == "+list";
        let states = if is_list { lists(rig.now(), DAY) } else { vec![("fresh", Vec::new())] };
        for (state, elements) in &states {
            for command in WRITES {
                for within in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                    let what = format!("{text}, {state}, {within:?} without {command}");
                    rig.plant(&key, elements);
                    let before = rig.left(&limiter).await;
                    rig.plant(&key, elements);
                    rig.deny(&[command]);
                    let result = match within {
                        None => limiter.check("key").await.map(|it| u64::from(it.is_admitted())),
                        Some(within) => {
                            let reserved = limiter.reserve("key", Cost::ONE, within).await;
                            reserved.map(|reserved| u64::from(reserved.is_admitted()))
                        }
                    };
                    rig.assert_all_expire(&limiter, &what);
                    let after = rig.left(&limiter).await;
                    match result {
                        // What is reserved for later is in no window that counts now.
                        Ok(_) if within == Some(Duration::MAX) => {
                            assert!(after <= before, "{what}");
                        }
                        Ok(admitted) => assert!(after + admitted <= before, "{what}: {after}"),
                        Err(error) => {
                            assert_denied(&error, command, &what);
                            assert!(after <= before, "{what}: {after}");
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refund_or_reset_that_fails_gives_no_more_back_than_was_charged() {
    let rig = Rig::start();
    for text in policies() {
        let limiter = rig.limiter(&text).await;
        let key = key_of(&limiter, "key");
        for command in WRITES {
            for charges in 1..=2 {
                let what = format!("{text}, {charges} charges without {command}");
                rig.allow();
                rig.server.command(&["FLUSHALL"]).unwrap();
                let receipt = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
                let Some(receipt) = receipt.into_receipt() else { panic!("{what}") };
                for _ in 1..charges {
                    let _ = limiter.check("key").await.unwrap();
                }
                if rig.server.command(&["TYPE", &key]).unwrap() == "+list" {
                    // An entry that has ended.
                    let newest = rig.elements(&key)[0].clone();
                    let words: Vec<&str> = newest.split(' ').collect();
                    let at: u64 = words[0].parse().unwrap();
                    let ended = format!("{} 0", at - 3 * DAY);
                    rig.server.command(&["LINSERT", &key, "AFTER", &newest, &ended]).unwrap();
                }
                let before = rig.left(&limiter).await;
                rig.deny(&[command]);
                let refunded = limiter.refund(receipt).await;
                rig.assert_all_expire(&limiter, &what);
                let after = rig.left(&limiter).await;
                match refunded {
                    Ok(permits) => assert_eq!(before + permits, after, "{what}"),
                    Err(error) => assert_denied(&error, command, &what),
                }
                assert!(after <= before + 1, "{what}: {after}");
                rig.deny(&[command]);
                let reset = limiter.reset("key").await;
                rig.allow();
                match reset {
                    Ok(()) => assert_eq!(rig.server.command(&["DBSIZE"]).unwrap(), ":0", "{what}"),
                    Err(error) => {
                        assert_denied(&error, command, &what);
                        assert_eq!(after, rig.left(&limiter).await, "{what}");
                    }
                }
            }
        }
    }
}

/// A command that is denied for one key fails the other checks of its batch, because it ends the script.
#[tokio::test]
async fn a_denied_command_of_one_key_admits_no_other_key_beyond_its_limit() {
    let rig = Rig::start();
    let limiter = rig.limiter("9/d by sub-windows 2 slots").await;
    let keys = ["own", "other"].map(|subject| key_of(&limiter, subject));
    let _ = limiter.check("own").await.unwrap();
    let now = rig.now();
    // Before the present slot.
    let (at, ended) = (now - 43_200_000_000, now - 200_000_000_000);
    let head = |total| format!("{at} 1 {total}");
    for (command, elements) in [
        ("PEXPIRE", vec![head(1)]),
        ("LSET", vec![head(1)]),
        ("RPUSH", vec![head(1)]),
        ("LTRIM", vec![head(2), format!("{ended} 1")]),
    ] {
        rig.allow();
        rig.plant(&keys[0], &[format!("{now} 1 1")]);
        let words = ["RPUSH", &keys[1]].into_iter().chain(elements.iter().map(String::as_str));
        rig.server.command(&words.collect::<Vec<_>>()).unwrap();
        rig.deny(&[command]);
        let results = join_all([limiter.check("own"), limiter.check("other")]).await;
        rig.allow();
        for (subject, result) in ["own", "other"].into_iter().zip(results) {
            let left = limiter.peek(subject).await.unwrap().remaining();
            let admitted = match result {
                Ok(decision) => u64::from(decision.is_admitted()),
                Err(error) => {
                    assert_denied(&error, command, subject);
                    0
                }
            };
            // The call is sent once more.
            assert!((6..=8 - admitted).contains(&left), "{subject} without {command}: {left}");
        }
    }
}
