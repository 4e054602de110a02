//! What the scripts of limiters have left is read and decoded as the limiters count it.

#[path = "../../limiter-redis/src/tests/client.rs"]
#[expect(dead_code, reason = "other tests set what becomes of calls")]
mod client;

use std::pin::pin;

use limiter_core::{Algorithm, Policy, Timestamp};
use limiter_redis::RedisLimiter;
use tokio::{
    runtime::Builder,
    select,
    task::{spawn, yield_now},
};

use self::client::{Client, read};
use crate::{
    read::{READ, Stored},
    state::decode,
    stored::Family,
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
        for (place, key) in limiter.stored_keys("alice").unwrap().into_iter().enumerate() {
            let script = [READ, "return read(KEYS[1])"].concat();
            let reply = client.execute(&[b"EVAL", script.as_bytes(), b"1", &key]);
            let stored = Stored::of(&read(reply)).unwrap();
            let limit = &policy.limits()[place];
            let state = decode(Family::of(limit.algorithm()), &stored.value, Some(limit), NOW);
            assert_eq!((state.used, state.is_exact, &state.problem), (2, true, &None), "{state:?}");
            assert!(state.fields.len() >= 3, "{state:?}");
            // A key expires when its limit is fresh, in whole milliseconds.
            let expires_in = stored.expires_in.unwrap();
            assert!(expires_in.saturating_sub(state.fresh_in).as_millis() <= 1, "{stored:?}");
            if place == usage.limit_index() {
                assert_eq!(state.fresh_in, usage.reset_after(), "{state:?}");
                assert_eq!(limit.quota().burst() - state.used, usage.remaining());
            }
        }
    }
}
