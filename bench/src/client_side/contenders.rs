//! The limiter, `fred` without it, and the peers: other crates with GCRA through Redis.

use std::{num::NonZeroU32, time::Duration};

use anyhow::{Context, Result};
use fred::{
    clients::Client,
    interfaces::LuaInterface,
    types::{Key, Value},
};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use redis::{
    IntoConnectionInfo,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
};
use throttled::{RateLimiter, RedisRateLimiter};
use tokio::runtime::Handle;

use crate::{
    capture::Captured,
    fred_client::{self, WITHIN},
    subjects::{self, NAME},
};

/// In the order of [`all`].
pub(super) const NAMES: [&str; 4] =
    ["limiter-redis", "bare fred", "throttled 0.1", "tower-rate-limit-fred 2.1"];

/// A client that is compared, with a connection and keys of its own.
pub(super) enum Contender {
    Limiter(RedisLimiter),
    Fred { client: Client, digest: String, keys: Vec<Key>, arguments: Vec<Value> },
    Throttled { limiter: RedisRateLimiter, quota: throttled::Quota, keys: Vec<String> },
    Tower { client: Client, burst: u16, interval: Duration, keys: Vec<Key> },
}

/// Returns the contenders. Their burst is so large that all checks of a run are admitted, or else one
/// permit that does not recover during the run.
pub(super) async fn all(url: &str, keys: &[String], admits: bool) -> Result<[Contender; 4]> {
    let (burst, an_hour): (u16, u16) = if admits { (10_000, 100) } else { (1, 1) };
    let quota = Quota::per_hour(an_hour.into()).try_with_burst(burst.into())?;
    let interval = Duration::from_secs(3_600) / an_hour.into();
    let policy = Policy::gcra(NAME, quota);
    let letter = if admits { 'a' } else { 'r' };
    let names = |number: usize| {
        let prefix = format!("{letter}{number:02}");
        keys.iter().map(|key| subjects::stored_key(&prefix, key)).collect::<Vec<String>>()
    };
    let names_of_fred = |number| names(number).into_iter().map(Key::from).collect::<Vec<_>>();

    let connection = limiter_redis::connect(url).await?;
    let limiter = RedisLimiter::builder(connection, policy.clone())
        .prefix(&format!("{letter}00"))
        .deadline(WITHIN)
        .build()?;

    let client = fred_client::connect(url).await?;
    let captured = Captured::new(&Handle::current(), &policy, &format!("{letter}01"))?;
    let call = captured.call("key").await?;
    let digest = client.script_load(call.source).await?;
    let arguments =
        call.arguments.into_iter().map(|argument| Value::Bytes(argument.into())).collect();
    let fred = Contender::Fred { client, digest, keys: names_of_fred(1), arguments };

    let positive = |number: u16| {
        NonZeroU32::new(number.into()).context("invalid quota: permits must be at least 1")
    };
    let quota = throttled::Quota::per_hour(positive(an_hour)?).with_burst(positive(burst)?);
    let throttled = Contender::Throttled {
        limiter: RedisRateLimiter::new(manager(url).await?),
        quota,
        keys: names(2),
    };

    let client = fred_client::connect(url).await?;
    let tower = Contender::Tower { client, burst, interval, keys: names_of_fred(3) };
    Ok([Contender::Limiter(limiter), fred, throttled, tower])
}

/// Returns a connection with the same deadline as those of `fred`.
async fn manager(url: &str) -> Result<ConnectionManager> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(WITHIN));
    Ok(client.get_connection_manager_with_config(config).await?)
}

impl Contender {
    /// Charges one permit to the key at `index` of `names`, or of its own keys, and returns whether that
    /// was admitted.
    pub(super) async fn is_admitted(&self, names: &[String], index: usize) -> Result<bool> {
        Ok(match self {
            Self::Limiter(limiter) => limiter.check(&names[index]).await?.is_admitted(),
            Self::Fred { client, digest, keys, arguments } => {
                let (key, arguments) = (keys[index].clone(), arguments.clone());
                let reply: Value = client.evalsha(digest, key, arguments).await?;
                first_integer(&reply) > Some(0)
            }
            Self::Throttled { limiter, quota, keys } => {
                limiter.check(keys[index].as_str(), *quota).await?.is_allowed()
            }
            Self::Tower { client, burst, interval, keys } => {
                let key = keys[index].clone();
                tower_rate_limit_fred::rate_limit(client, key, *burst, *interval).await?.is_none()
            }
        })
    }
}

/// Returns the first integer of a reply, however deeply it is nested. It is positive if the script has
/// admitted the check, and else 0.
fn first_integer(reply: &Value) -> Option<i64> {
    match reply {
        Value::Integer(integer) => Some(*integer),
        Value::Array(values) => first_integer(values.first()?),
        _ => None,
    }
}
