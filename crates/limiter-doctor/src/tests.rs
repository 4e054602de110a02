//! What the scripts of limiters have left is read and decoded as the limiters count it.

#[path = "../../limiter-redis/src/tests/client.rs"]
#[expect(dead_code, reason = "other tests set what becomes of calls")]
mod client;

use std::pin::pin;

use limiter_core::{Algorithm, Policy, Timestamp};
use limiter_redis::{RedisLimiter, ScriptReply};
use tokio::{
    runtime::Builder,
    select,
    task::{spawn, yield_now},
};

use self::client::{Client, read};
use crate::{
    identity::Identity,
    read::{READ, Stored, Value, arguments},
    state::State,
    subject::{Content, StoredKey, hash_of},
};

const NOW: u64 = 1_767_225_600_000_000;

/// Returns the output of a future that calls the server, whose tasks run meanwhile.
fn run<T>(client: &Client, future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().build().unwrap().block_on(async {
        let mut future = pin!(future);
        loop {
            client.spawned().into_iter().for_each(|task| drop(spawn(task)));
            select! {
                biased;
                output = &mut future => return output,
                () = yield_now() => {}
            }
        }
    })
}

/// Returns policies by each algorithm, and one of several limits.
fn policies() -> impl Iterator<Item = Policy> {
    let single = Algorithm::one_of_each().map(|by| Policy::parse("api", &format!("10/d by {by}")));
    let several = ["fixed-window", "sliding-log"].map(|by| {
        let long = Policy::parse("long", &format!("20/10d by {by}")).unwrap();
        Policy::all_of("api", [Policy::parse("short", "10/d").unwrap(), long])
    });
    single.chain(several).map(Result::unwrap)
}

#[test]
fn permits_in_use_are_those_that_the_limiter_counts() {
    for policy in policies() {
        let client = Client::new();
        client.set_time(Timestamp::from_nanos(NOW * 1_000));
        let builder = RedisLimiter::builder(policy.clone()).clock(client.clock());
        let limiter = builder.build_on(client.clone()).unwrap();
        for _ in 0..2 {
            assert!(run(&client, limiter.check("alice")).unwrap().is_admitted());
        }
        let usage = run(&client, limiter.peek("alice")).unwrap();
        let hash = limiter.stored_keys("alice").unwrap().remove(0);
        let hash = hash_of(&hash).unwrap().to_owned();
        for (place, limit) in policy.limits().iter().enumerate() {
            let identity = Identity::parse(&policy.identities()[place]).unwrap();
            let (key, content) = match identity.family.is_log() {
                true => {
                    let key = [&hash[..], b":", identity.text.as_bytes()].concat();
                    (key, Content::Log(identity.clone()))
                }
                false => (hash.clone(), Content::Hash),
            };
            assert_eq!(StoredKey::parse(&key).unwrap().content, content);
            let script = [READ, "return read(KEYS[1], ARGV[1], ARGV[2])"].concat();
            let [slot, span] = arguments(&content).map(String::into_bytes);
            let words = [b"EVAL", script.as_bytes(), b"1", &key, &slot, &span];
            let stored = Stored::of(&read(client.execute(&words))).unwrap();
            let state = match &stored.value {
                Value::List(log) => State::of_log(&identity, log, NOW),
                Value::Hash(fields) => {
                    let field = fields.iter().find(|(name, _)| *name == identity.text);
                    State::of_field(&identity, &field.unwrap().1, NOW)
                }
                value => panic!("{value:?}"),
            };
            assert_eq!((state.permits(limit), state.problem), (2, None), "{state:?}");
            // It is there as long as its permits.
            assert!(stored.expires_in.unwrap() >= state.free_in, "{stored:?}");
            if place == usage.limit_index() {
                assert_eq!(state.free_in, usage.reset_after(), "{state:?}");
                assert_eq!(limit.quota().burst() - 2, usage.remaining());
            }
        }
    }
}

/// What a permit adds by GCRA is rounded up, by two rules.
#[test]
fn permits_by_gcra_are_those_that_the_limiter_counts() {
    for quota in [
        "10/d",
        "7/s",
        "3000/s",
        "999/s",
        "1001/s burst 3000",
        "30000/min",
        "7/d",
        "1000000/h",
        "13/7s",
    ] {
        let policy = Policy::parse("api", quota).unwrap();
        let limit = &policy.limits()[0];
        let client = Client::new();
        client.set_time(Timestamp::from_nanos(NOW * 1_000));
        let builder = RedisLimiter::builder(policy.clone()).clock(client.clock());
        let limiter = builder.build_on(client.clone()).unwrap();
        let identity = Identity::parse(&policy.identities()[0]).unwrap();
        let key = limiter.stored_keys("alice").unwrap().remove(0);
        for used in 1..=limit.quota().burst().min(40) {
            assert!(run(&client, limiter.check("alice")).unwrap().is_admitted());
            let words = [b"HGET", &key[..], identity.text.as_bytes()];
            let ScriptReply::Text(text) = read(client.execute(&words)) else { panic!("{quota}") };
            let state = State::of_field(&identity, &text, NOW);
            assert_eq!((state.permits(limit), state.problem), (used, None), "{quota} {text}");
        }
    }
}
