//! A limiter that leases permits from Redis, and what its leases count.

use std::{env, time::Duration};

use anyhow::{Context, Result};
use limiter_redis::{Counters, RedisLimiter};
use limiter_tower::Policy;
use metrics::counter;
use tokio::time::interval;

/// How often the metrics follow the limiter's counters.
const FOLLOWS_EVERY: Duration = Duration::from_secs(1);

/// Returns a limiter on the server at `url`. Its leases are counted until the program ends.
pub(crate) async fn limiter(url: &str, policy: Policy) -> Result<RedisLimiter> {
    let limiter =
        RedisLimiter::builder(policy).lease(true).deadline(deadline()?).connect(url).await?;
    tokio::spawn(count(limiter.clone()));
    Ok(limiter)
}

/// Adds to the metrics what the limiter has counted since the last time.
async fn count(limiter: RedisLimiter) {
    let policy = limiter.policy().name().to_owned();
    let (mut ticks, mut last) = (interval(FOLLOWS_EVERY), Counters::default());
    loop {
        ticks.tick().await;
        let now = limiter.counters();
        counter!("ratelimit_leases_total", "policy" => policy.clone())
            .increment(now.leases - last.leases);
        for (result, permits) in [
            ("granted", now.lease_permits - last.lease_permits),
            ("spent", now.leased - last.leased),
            ("unused", now.lease_unused - last.lease_unused),
            ("returned", now.lease_returned - last.lease_returned),
        ] {
            let labels = [("policy", policy.clone()), ("result", result.to_owned())];
            counter!("ratelimit_lease_permits_total", &labels).increment(permits);
        }
        last = now;
    }
}

/// Returns how long a check may take.
fn deadline() -> Result<Duration> {
    let milliseconds = match env::var("DEADLINE_MS") {
        Ok(text) => {
            text.parse().with_context(|| format!("DEADLINE_MS is {text:?}: use a number"))?
        }
        Err(_) => 50,
    };
    Ok(Duration::from_millis(milliseconds))
}
