//! The limiter, the library under it, and the peers: GCRA through Redis in other crates.

use std::{num::NonZeroU32, time::Duration};

use anyhow::{Context, Result};
use fred::{
    clients::Client,
    interfaces::LuaInterface,
    types::{Key, Value},
};
use limiter_core::{Cost, Policy, Quota};
use limiter_redis::RedisLimiter;
use redis::{
    IntoConnectionInfo,
    aio::{ConnectionManager, ConnectionManagerConfig},
    io::tcp::TcpSettings,
};
use throttled::{RateLimiter, RedisRateLimiter};

use crate::{
    capture::Captured,
    fred_client::{self, WITHIN},
    subjects::NAME,
};

/// In the order of [`all`].
pub(super) const NAMES: [&str; 4] =
    ["limiter-redis", "bare fred", "throttled 0.1", "tower-rate-limit-fred 2.1"];

/// What is compared, each on a connection and with keys of its own.
pub(super) enum Contender {
    Limiter(RedisLimiter),
    Fred { client: Client, digest: String, keys: Vec<Key>, arguments: Vec<Value> },
    Throttled { limiter: RedisRateLimiter, quota: throttled::Quota, keys: Vec<String> },
    Tower { client: Client, burst: u16, interval: Duration, keys: Vec<Key> },
}

/// Returns the contenders, with a burst that all the checks of a run fit in, or with one permit that
/// does not come back during the run.
pub(super) async fn all(url: &str, keys: &[String], admits: bool) -> Result<[Contender; 4]> {
    let (burst, an_hour): (u16, u16) = if admits { (10_000, 100) } else { (1, 1) };
    let quota = Quota::per_hour(an_hour.into())?.with_burst(burst.into())?;
    let interval = Duration::from_secs(3_600) / an_hour.into();
    let policy = Policy::gcra(NAME, quota)?;
    let letter = if admits { 'a' } else { 'r' };
    let names = |number: usize| {
        let name = move |key| format!("{letter}{number:02}:{NAME}:s{key}");
        keys.iter().map(name).collect::<Vec<String>>()
    };
    let names_of_fred = |number| names(number).into_iter().map(Key::from).collect::<Vec<_>>();

    let connection = limiter_redis::connect(url).await?;
    let limiter = RedisLimiter::new(connection, policy.clone())?
        .with_prefix(&format!("{letter}00"))?
        .with_deadline(WITHIN)?;

    let client = fred_client::connect(url).await?;
    let call = Captured::new(&policy, &format!("{letter}01"))?.call("key")?;
    let digest = client.script_load(call.source).await?;
    let arguments =
        call.arguments.into_iter().map(|argument| Value::Bytes(argument.into())).collect();
    let fred = Contender::Fred { client, digest, keys: names_of_fred(1), arguments };

    let positive = |number: u16| NonZeroU32::new(number.into()).context("a quota of 0");
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

/// Returns a connection that waits as long as those by fred.
async fn manager(url: &str) -> Result<ConnectionManager> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(WITHIN));
    Ok(client.get_connection_manager_with_config(config).await?)
}

impl Contender {
    /// Takes a permit of the key at `index` of `names`, or of its own name for it.
    pub(super) async fn is_admitted(&self, names: &[String], index: usize) -> Result<bool> {
        Ok(match self {
            Self::Limiter(limiter) => {
                limiter.try_acquire(&names[index], Cost::ONE).await?.is_admitted()
            }
            Self::Fred { client, digest, keys, arguments } => {
                let (key, arguments) = (keys[index].clone(), arguments.clone());
                let reply: i64 = client.evalsha(digest, key, arguments).await?;
                // As the script of GCRA replies.
                reply > 0
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
