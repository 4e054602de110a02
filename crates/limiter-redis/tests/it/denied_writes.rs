//! A user who may not call one of the commands by which scripts write: a check that fails has charged nothing,
//! and a refund that fails has given nothing back.

use std::time::Duration;

use futures::future::join_all;
use limiter_core::{Cost, Error, ErrorKind, Policy};
use limiter_redis::{RedisLimiter, connect, scripts::SCRIPT_COMMANDS};
use limiter_rig::server::Server;

use crate::connect_here;

const WRITES: [&str; 6] = ["SET", "DEL", "PEXPIRE", "LSET", "RPUSH", "LTRIM"];

const POLICIES: [&str; 8] = [
    "3/d",
    "3/d by fixed-window",
    "3/d by aligned-window",
    "3/d by sliding-counter",
    "3/d by sliding-log",
    "3/d by sub-windows 10 slots",
    // Three in each slot, whatever the time.
    "30/d by sub-windows 10 slots paced",
    "3/d, 5/2d by sliding-log",
];

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
        let builder = RedisLimiter::builder(connect_here(&self.url).await, policy);
        // The circuit breaker would hide what follows.
        let builder = builder.breaker(10, Duration::from_millis(1)).denial_cache(0);
        builder.deadline(Duration::from_secs(5)).build().unwrap()
    }

    /// Returns what is stored at a key, without its expiry.
    fn stored(&self, key: &str) -> Vec<String> {
        let list = self.server.command(&["LRANGE", key, "0", "-1"]);
        let reply = list.or_else(|_| self.server.command(&["GET", key])).unwrap();
        let is_element = |line: &&str| !line.starts_with(['*', '$']);
        reply.lines().filter(is_element).map(str::to_owned).collect()
    }

    fn plant(&self, key: &str, elements: &[String]) {
        self.server.command(&["DEL", key]).unwrap();
        if !elements.is_empty() {
            let elements = elements.iter().map(String::as_str);
            let words: Vec<_> = ["RPUSH", key].into_iter().chain(elements).collect();
            self.server.command(&words).unwrap();
            self.server.command(&["PEXPIRE", key, "3600000"]).unwrap();
        }
    }

    /// Returns the server's time in microseconds.
    fn now(&self) -> u64 {
        let time = self.server.command(&["TIME"]).unwrap();
        let parts: Vec<u64> = time.lines().filter_map(|line| line.parse().ok()).collect();
        parts[0] * 1_000_000 + parts[1]
    }
}

fn key_of(limiter: &RedisLimiter, subject: &str) -> String {
    String::from_utf8(limiter.stored_key(subject).unwrap()).unwrap()
}

/// Returns lists, as a log's quota begins them: fresh, in the present slot, before it, with ended entries, ended
/// altogether, by another quota, and damaged.
fn lists(now: u64, quota: &str) -> Vec<(&'static str, Vec<String>)> {
    let numbers: Vec<u64> = quota.split(' ').map(|number| number.parse().unwrap()).collect();
    let (span, horizon) = (numbers[1], numbers[2]);
    let entry = |ago: u64, total: u64| format!("{} 1 {total}", now - ago);
    let head = |ago: u64, total: u64| format!("{} {quota}", entry(ago, total));
    let ended = [entry(5 * span, 1), entry(4 * span, 2), entry(3 * span, 3)];
    let with_ended = |head: String| [&[head][..], &ended, &[entry(span / 2, 4)]].concat();
    let other = format!("{} 1 {} {horizon}", entry(span / 3, 5), span + 1_000_000);
    vec![
        ("fresh", Vec::new()),
        ("in the slot", vec![head(0, 1)]),
        ("before the slot", vec![head(span / 3, 2), entry(span / 2, 1)]),
        ("with ended entries", with_ended(head(span / 3, 5))),
        ("ended", [&[head(2 * span, 4)][..], &ended].concat()),
        ("by another quota", vec![other.clone(), entry(span / 2, 4)]),
        ("by another quota, with ended entries", with_ended(other)),
        ("damaged", vec!["nonsense".to_owned(), entry(span / 2, 4)]),
    ]
}

/// Returns a list without the entries that have ended.
fn counting(list: &[String], now: u64, span: u64) -> Vec<String> {
    let ends = |element: &&String| {
        let at = element.split(' ').next().and_then(|at| at.parse::<u64>().ok());
        at.is_none_or(|at| at + 5 * span / 4 > now)
    };
    list.iter().take(1).chain(list.iter().skip(1).filter(ends)).cloned().collect()
}

fn assert_denied(error: &Error, command: &str, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
    assert!(error.to_string().contains(command), "{what}: {error}");
}

#[test]
fn the_commands_that_write_are_those_of_scripts() {
    let reads = ["TIME", "GET", "PTTL", "LLEN", "LRANGE", "LINDEX"];
    let all: Vec<_> = SCRIPT_COMMANDS.iter().filter(|it| !reads.contains(*it)).collect();
    assert_eq!(all.len(), WRITES.len());
    assert!(all.iter().all(|command| WRITES.contains(command)), "{all:?}");
}

/// A log's script once dropped ended entries and wrote the newest one before a denied RPUSH, which charged checks
/// that were reported as failed.
#[tokio::test]
async fn a_check_or_reservation_that_fails_has_charged_nothing() {
    let rig = Rig::start();
    for text in POLICIES {
        let limiter = rig.limiter(text).await;
        let key = key_of(&limiter, "key");
        rig.allow();
        let _ = limiter.check("key").await.unwrap();
        let quota = rig.stored(&key)[0].split(' ').skip(3).collect::<Vec<_>>().join(" ");
        let is_list = rig.server.command(&["TYPE", &key]).unwrap() == "+list";
        let now = rig.now();
        let span: u64 = quota.split(' ').nth(1).and_then(|span| span.parse().ok()).unwrap_or(0);
        let states = if is_list { lists(now, &quota) } else { vec![("fresh", Vec::new())] };
        for (state, elements) in &states {
            for command in WRITES {
                for within in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                    let what = format!("{text}, {state}, {within:?} without {command}");
                    rig.plant(&key, elements);
                    rig.deny(&[command]);
                    let result = match within {
                        None => limiter.check("key").await.map(|it| it.is_admitted()),
                        Some(within) => {
                            let reserved = limiter.reserve("key", Cost::ONE, within).await;
                            reserved.map(|reserved| reserved.is_admitted())
                        }
                    };
                    let stored = rig.stored(&key);
                    let is_same = counting(elements, now, span) == counting(&stored, now, span);
                    match result {
                        Ok(is_admitted) => {
                            let is_repaired = *state == "damaged";
                            assert!(is_same != is_admitted || is_repaired, "{what}: {stored:?}");
                        }
                        Err(error) => {
                            assert_denied(&error, command, &what);
                            // A value that no limiter writes is replaced by a full state.
                            let is_full = *state == "damaged" && stored[0].contains(" 3 3 ");
                            assert!(is_same || is_full, "{what}: {stored:?}");
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refund_or_reset_that_fails_has_given_nothing_back() {
    let rig = Rig::start();
    for text in POLICIES {
        let limiter = rig.limiter(text).await;
        let key = key_of(&limiter, "key");
        for command in WRITES {
            for charges in 1..=2 {
                let what = format!("{text}, {charges} charges without {command}");
                rig.allow();
                rig.server.command(&["DEL", &key]).unwrap();
                let receipt = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
                let Some(receipt) = receipt.into_receipt() else { panic!("{what}") };
                for _ in 1..charges {
                    let _ = limiter.check("key").await.unwrap();
                }
                if rig.server.command(&["TYPE", &key]).unwrap() == "+list" {
                    let newest = rig.stored(&key)[0].clone();
                    let at: u64 = newest.split(' ').next().unwrap().parse().unwrap();
                    let span: u64 = newest.split(' ').nth(4).unwrap().parse().unwrap();
                    let ended = format!("{} 0 0", at - 2 * span);
                    rig.server.command(&["LINSERT", &key, "AFTER", &newest, &ended]).unwrap();
                }
                let before = rig.stored(&key);
                rig.deny(&[command]);
                match limiter.refund(receipt).await {
                    Ok(permits) => assert_eq!(permits > 0, before != rig.stored(&key), "{what}"),
                    Err(error) => {
                        assert_denied(&error, command, &what);
                        assert_eq!(before, rig.stored(&key), "{what}");
                    }
                }
                let before = rig.stored(&key);
                match limiter.reset("key").await {
                    Ok(()) => assert!(rig.stored(&key).concat().is_empty(), "{what}"),
                    Err(error) => {
                        assert_denied(&error, command, &what);
                        assert_eq!(before, rig.stored(&key), "{what}");
                    }
                }
            }
        }
    }
}

/// An error of one key once ended the script after other keys of its batch had been charged, so that their checks
/// were sent again, and charged twice.
#[tokio::test]
async fn a_denied_command_of_one_key_fails_no_other_key_of_the_batch() {
    let rig = Rig::start();
    let limiter = rig.limiter("9/d by sub-windows 2 slots").await;
    let keys = ["own", "other"].map(|subject| key_of(&limiter, subject));
    let _ = limiter.check("own").await.unwrap();
    let quota = rig.stored(&keys[0])[0].split(' ').skip(3).collect::<Vec<_>>().join(" ");
    let now = rig.now();
    // Before the present slot, and by another quota.
    let (at, ended) = (now - 43_200_000_000, now - 200_000_000_000);
    let lists = [format!("{at} 1 2 {quota}"), format!("{at} 1 2 1 90000000000 90000000000")];
    for (command, head, older) in [
        ("LSET", &lists[0], None),
        ("RPUSH", &lists[0], None),
        ("LTRIM", &lists[0], Some(format!("{ended} 1 1"))),
        ("LLEN", &lists[1], Some(format!("{ended} 1 1"))),
        ("LINDEX", &lists[1], Some(format!("{ended} 1 1"))),
    ] {
        rig.allow();
        rig.plant(&keys[0], &[format!("{now} 1 1 {quota}")]);
        let many = vec![format!("{ended} 1 1"); if command == "LINDEX" { 9 } else { 0 }];
        let elements = [&[head.clone()][..], older.as_slice(), &many].concat();
        rig.plant(&keys[1], &elements);
        rig.deny(&[command]);
        let results = join_all([limiter.check("own"), limiter.check("other")]).await;
        let denied = results[1].as_ref().unwrap_err();
        assert_denied(denied, command, command);
        let charged = u64::from(results[0].is_ok());
        let stored = rig.stored(&keys[0]);
        let total: u64 = stored[0].split(' ').nth(2).unwrap().parse().unwrap();
        assert_eq!(total - 1, charged, "{command}: {results:?} {stored:?}");
        assert_eq!(results[0].is_ok(), command != "LSET", "{command}: {results:?}");
        assert_eq!(rig.stored(&keys[1]), elements, "{command}");
    }
}

/// A first entry whose expiry could not be set nor the entry be deleted is a charge, and reported as one.
#[tokio::test]
async fn an_entry_that_cannot_be_deleted_again_is_a_charge() {
    let rig = Rig::start();
    let limiter = rig.limiter("3/d by sliding-log").await;
    rig.deny(&["PEXPIRE", "DEL"]);
    assert_eq!(limiter.check("key").await.unwrap().remaining(), 2);
    let connection = connect(&rig.server.url()).await.unwrap();
    let allowed = RedisLimiter::builder(connection, limiter.policy().clone()).build().unwrap();
    assert_eq!(allowed.peek("key").await.unwrap().remaining(), 2);
}
