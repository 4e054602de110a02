//! A server whose memory is full, and which keeps all keys. limiter-redis tests the same on a server in the process.

use std::time::Duration;

use futures::future::{join, join_all};
use limiter_core::Error;
use limiter_redis::{CallError, Fault, RedisInFlight, RedisLimiter, connect};
use limiter_rig::server::Server;
use tokio::time::sleep;

use crate::{POLICIES, connect_here, policy};

/// How long tests wait for a reply: longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(20);

async fn limiter(server: &Server, text: &str) -> RedisLimiter {
    let builder = RedisLimiter::builder(policy(text)).denial_cache(0).deadline(PATIENCE);
    // On one thread, so that checks of one moment are one call.
    builder.build_on(connect_here(&server.url()).await).unwrap()
}

/// Returns a server that may use so many bytes more than now.
fn start_with_room(bytes: u64) -> Server {
    let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
    let info = server.command(&["INFO", "memory"]).unwrap();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse::<u64>().ok());
    set_max_memory(&server, used.unwrap() + bytes);
    server
}

fn set_max_memory(server: &Server, bytes: u64) {
    server.command(&["CONFIG", "SET", "maxmemory", &bytes.to_string()]).unwrap();
}

fn is_out_of_memory(error: &Error) -> bool {
    let fault = CallError::of(error).unwrap().fault();
    fault == Fault::NotExecuted && error.to_string().contains("OOM")
}

#[tokio::test]
async fn fresh_keys_take_no_more_memory() {
    for text in POLICIES {
        let server = start_with_room(1 << 20);
        let limiter = limiter(&server, text).await;
        let (mut admitted, mut refused) = (0, 0);
        for batch in 0..150 {
            let checks = (0..200).map(|number| limiter.check(&*format!("key-{batch}-{number}")));
            for result in join_all(checks.collect::<Vec<_>>()).await {
                match result {
                    Ok(decision) => admitted += u32::from(decision.is_admitted()),
                    Err(error) => {
                        assert!(is_out_of_memory(&error), "{text}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        // A key takes about 200 bytes, and a reply's buffer counts as memory, too.
        assert!(admitted < 15_000 && refused > 15_000, "{text}: {admitted} admitted");
    }
}

/// One fresh key that the server refuses does not decide about the key beside it in the batch, nor open the circuit
/// breaker.
#[tokio::test]
async fn a_key_at_its_limit_is_refused_beside_a_fresh_one() {
    for text in POLICIES {
        let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
        let limiter = limiter(&server, text).await;
        for _ in 0..2 {
            assert!(limiter.check("full").await.unwrap().is_admitted());
        }
        set_max_memory(&server, 1);
        let mut refused = 0;
        for number in 0..50 {
            let fresh = format!("fresh-{number}");
            let (fresh, full) = join(limiter.check(&*fresh), limiter.check("full")).await;
            refused += u32::from(full.is_ok_and(|decision| !decision.is_admitted()));
            let error = fresh.unwrap_err();
            assert!(is_out_of_memory(&error), "{text}: {error}");
        }
        assert_eq!(refused, 50, "{text}");
        assert_eq!(limiter.counters().short_circuited, 0, "{text}");
    }
}

#[tokio::test]
async fn permits_in_flight_are_renewed() {
    let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
    let limiter = RedisInFlight::builder("uploads", 8)
        .expires_after(Duration::from_secs(4))
        .build_on(connect(&server.url()).await.unwrap())
        .unwrap();
    let entries = join_all((0..8).map(|_| limiter.enter("alice"))).await;
    let permits = entries.into_iter().map(|entry| entry.unwrap().into_permit().unwrap());
    let permits: Vec<_> = permits.collect();
    set_max_memory(&server, 1);
    // Without renewals, each permit would have ended.
    sleep(Duration::from_secs(6)).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));
}
