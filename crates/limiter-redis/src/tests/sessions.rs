//! The sessions in `docs/states.md` print what a server prints.

use std::{env, fs};

use limiter_core::{Policy, Timestamp};
use limiter_double::Reply;

use super::store::Store;
use crate::RedisLimiter;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/states.md");

/// Returns what `redis-cli` prints in reply to a command.
fn print(store: &Store, words: &[&str]) -> String {
    if let ["TTL", key] = words {
        let Reply::Integer(millis) = store.client.execute(&["PTTL", key]) else {
            panic!("no expiry of {key}");
        };
        return format!("(integer) {}\n", (millis + 500) / 1_000);
    }
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => format!("{:?}\n", String::from_utf8(bytes.clone()).unwrap()),
        other => panic!("{other:?}"),
    };
    match store.client.execute(words) {
        Reply::Integer(number) => format!("(integer) {number}\n"),
        Reply::Array(replies) => {
            let lines = replies.iter().zip(1..);
            lines.map(|(reply, number)| format!("{number}) {}", text(reply))).collect()
        }
        Reply::Status(_) => String::new(),
        reply => text(&reply),
    }
}

/// Returns a document whose sessions were repeated, each on an empty server.
fn repeated(document: &str, store: &Store) -> String {
    let mut printed = String::new();
    let mut is_session = false;
    for line in document.lines() {
        if line.starts_with("```") {
            is_session = line == "```console";
        }
        if let Some(traffic) = line.strip_prefix("# The policy ").filter(|_| is_session) {
            store.client.execute(&["FLUSHALL"]);
            make(store, traffic);
        } else if is_session && !line.starts_with(['$', '`']) {
            // What it printed before.
            continue;
        }
        printed += &format!("{line}\n");
        if let Some(command) = line.strip_prefix("$ redis-cli ") {
            let command = command.replace('"', "");
            printed += &print(store, &command.split(' ').collect::<Vec<_>>());
        }
    }
    printed
}

/// Makes the checks of a line such as `"api" is "10/min". 3 checks at 1767225600. 1 check by "9/h" at 1767225610.`
fn make(store: &Store, traffic: &str) {
    let (policy, checks) = traffic.split_once(". ").unwrap();
    let texts: Vec<&str> = policy.split('"').skip(1).step_by(2).collect();
    let (name, limits) = texts.split_first().unwrap();
    let policy = match limits {
        [limit] => Policy::parse(name, limit).unwrap(),
        limits => {
            let limits = limits.iter().map(|limit| {
                let (name, limit) = limit.split_once('=').unwrap();
                Policy::parse(name, limit).unwrap()
            });
            Policy::all_of(name, limits).unwrap()
        }
    };
    let builder = RedisLimiter::builder(policy).clock(store.client.clock());
    let limiter = builder.build_on(store.client.clone()).unwrap();
    for checks in checks.trim_end_matches('.').split(". ") {
        let (what, seconds) = checks.split_once(" at ").unwrap();
        let (number, by) = what.split_once(' ').unwrap();
        let by = by.trim_start_matches("checks").trim_start_matches("check");
        store
            .client
            .set_time(Timestamp::from_nanos(seconds.parse::<u64>().unwrap() * 1_000_000_000));
        let handle = by.strip_prefix(" by ").map(|quota| {
            let tier = Policy::parse("tier", quota.trim_matches('"')).unwrap();
            limiter.with_policy(&tier).unwrap()
        });
        let limiter = handle.as_ref().unwrap_or(&limiter);
        for _ in 0..number.parse().unwrap() {
            let decision = store.block_on(limiter.check("alice")).unwrap();
            assert!(decision.is_admitted(), "{traffic}");
        }
    }
}

#[test]
fn sessions_in_the_documents_are_real() {
    let written = fs::read_to_string(DOCUMENT).unwrap();
    let printed = repeated(&written, &Store::new());
    if env::var_os("LIMITER_WRITE_DOCS").is_some() {
        fs::write(DOCUMENT, &printed).unwrap();
        return;
    }
    let hint = "run this test with LIMITER_WRITE_DOCS=1 to write the sessions anew";
    assert!(written == printed, "{DOCUMENT} is out of date: {hint}\n{printed}");
}
