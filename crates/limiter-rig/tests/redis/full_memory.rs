//! A server whose memory is full, and which keeps all keys. limiter-redis shows more on a server in the process.

use std::time::Duration;

use futures::future::join_all;
use limiter_redis::{CallError, Fault, RedisLimiter};
use limiter_rig::server::Server;

use crate::{POLICIES, connect_here, policy};

/// Returns a server that may use so many bytes more than now.
fn start_with_room(bytes: u64) -> Server {
    let server = Server::start_with(&["--maxmemory-policy", "noeviction"]);
    let info = server.command(&["INFO", "memory"]).unwrap();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse::<u64>().ok());
    let most = (used.unwrap() + bytes).to_string();
    server.command(&["CONFIG", "SET", "maxmemory", &most]).unwrap();
    server
}

#[tokio::test]
async fn fresh_keys_take_no_more_memory() {
    for text in POLICIES {
        let server = start_with_room(1 << 20);
        let builder = RedisLimiter::builder(policy(text)).denial_cache(0);
        let builder = builder.deadline(Duration::from_secs(20));
        // On one thread, so that checks of one moment are one call.
        let limiter = builder.build_on(connect_here(&server.url()).await).unwrap();
        let (mut admitted, mut refused) = (0, 0);
        for batch in 0..150 {
            let checks = (0..200).map(|number| limiter.check(&*format!("key-{batch}-{number}")));
            for result in join_all(checks.collect::<Vec<_>>()).await {
                match result {
                    Ok(decision) => admitted += u32::from(decision.is_admitted()),
                    Err(error) => {
                        let fault = CallError::of(&error).unwrap().fault();
                        assert_eq!(fault, Fault::NotExecuted, "{text}: {error}");
                        assert!(error.to_string().contains("OOM"), "{text}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        // A key takes about 200 bytes, and a reply's buffer counts as memory, too.
        assert!(admitted < 15_000 && refused > 15_000, "{text}: {admitted} admitted");
    }
}
