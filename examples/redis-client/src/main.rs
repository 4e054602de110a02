//! Limiters over a connection of the library `redis` that the program has already. `lib.rs` is the adapter, and shows
//! what an adapter for another library has to do.
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6379 cargo run -p example-redis-client
//! admitted, 2 remaining
//! admitted, 1 remaining
//! admitted, 0 remaining
//! refused for 20 s
//! ```

use std::env;

use example_redis_client::RedisClient;
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let manager = redis::Client::open(url)?.get_connection_manager().await?;
    let policy = Policy::gcra("example", Quota::per_minute(3));
    let limiter = RedisLimiter::builder(policy).build_on(RedisClient::of(manager)?)?;
    for _ in 0..4 {
        let decision = limiter.check("alice").await?;
        if decision.is_admitted() {
            println!("admitted, {} remaining", decision.remaining());
        } else {
            let wait = decision.retry_after().unwrap_or_default();
            println!("refused for {} s", wait.as_secs_f64().ceil());
        }
    }
    Ok(())
}
