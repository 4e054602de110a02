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

use super::{Scenario, layers::Layers};
use crate::{
    capture::{Call, Captured},
    fred_client::{self, WITHIN},
    subjects::{self, NAME},
};

/// In the order of [`all`].
pub(super) const NAMES: [&str; 6] = [
    "limiter-redis",
    "bare fred",
    "throttled 0.1",
    "tower-rate-limit-fred 2.1",
    "limiter-tower's layer",
    "tower-rate-limit-fred's layer",
];

/// A client that is compared, with a connection and keys of its own.
pub(super) enum Contender {
    Limiter(Vec<RedisLimiter>),
    Fred { client: Client, calls: Vec<FredCall>, keys: Vec<Key> },
    Throttled { limiter: RedisRateLimiter, quotas: Vec<throttled::Quota>, keys: Vec<String> },
    Tower { client: Client, quotas: Vec<(u16, Duration)>, keys: Vec<Key> },
    Layers(Layers),
}

/// A call of the limiter's script, without its key.
pub(super) struct FredCall {
    digest: String,
    arguments: Vec<Value>,
}

/// Returns the contenders. Their burst is so large that all checks of a run are admitted, or else one
/// permit that does not recover during the run.
pub(super) async fn all(
    url: &str,
    keys: &[String],
    scenario: &Scenario,
) -> Result<[Contender; NAMES.len()]> {
    let letter = scenario.letter;
    let (burst, an_hour): (u16, u16) = if scenario.admits { (10_000, 100) } else { (1, 1) };
    // All differ.
    let quotas: Vec<(u16, u16)> =
        (0..scenario.quotas).map(|number| (burst + number, an_hour + number)).collect();
    let policy = |&(burst, an_hour): &(u16, u16)| -> Result<Policy> {
        let quota = Quota::per_hour(an_hour.into()).try_with_burst(burst.into())?;
        Ok(Policy::gcra(NAME, quota))
    };
    let policies: Vec<Policy> = quotas.iter().map(policy).collect::<Result<_>>()?;
    let first = policies.first().context("no quotas")?;
    let names = |number: usize| {
        let prefix = format!("{letter}{number:02}");
        keys.iter().map(|key| subjects::stored_key(&prefix, key)).collect::<Vec<String>>()
    };
    let names_of_fred = |number| names(number).into_iter().map(Key::from).collect::<Vec<_>>();

    let limiters = async |number: usize| -> Result<Vec<RedisLimiter>> {
        let limiter = RedisLimiter::builder(first.clone())
            .prefix(&format!("{letter}{number:02}"))
            .deadline(WITHIN)
            .connect(url)
            .await?;
        let limiters = policies.iter().map(|policy| limiter.with_policy(policy));
        Ok(limiters.collect::<Result<_, _>>()?)
    };
    let limiter = Contender::Limiter(limiters(0).await?);

    let client = fred_client::connect(url).await?;
    let mut calls = Vec::new();
    for policy in &policies {
        let captured = Captured::new(&Handle::current(), policy, &format!("{letter}01"))?;
        let Call { source, arguments, .. } = captured.call("key").await?;
        let digest = client.script_load(source).await?;
        let arguments = arguments.into_iter().map(|argument| Value::Bytes(argument.into()));
        calls.push(FredCall { digest, arguments: arguments.collect() });
    }
    let fred = Contender::Fred { client, calls, keys: names_of_fred(1) };

    let positive = |number: u16| {
        NonZeroU32::new(number.into()).context("invalid quota: permits must be at least 1")
    };
    let quota = |&(burst, an_hour): &(u16, u16)| -> Result<throttled::Quota> {
        Ok(throttled::Quota::per_hour(positive(an_hour)?).with_burst(positive(burst)?))
    };
    let throttled = Contender::Throttled {
        limiter: RedisRateLimiter::new(manager(url).await?),
        quotas: quotas.iter().map(quota).collect::<Result<_>>()?,
        keys: names(2),
    };

    let client = fred_client::connect(url).await?;
    let interval = |an_hour: u16| Duration::from_secs(3_600) / an_hour.into();
    let quotas: Vec<_> =
        quotas.into_iter().map(|(burst, an_hour)| (burst, interval(an_hour))).collect();
    let layer = Contender::Layers(Layers::of_limiters(limiters(4).await?, keys)?);
    let peer = fred_client::connect(url).await?;
    let peer_layer = Contender::Layers(Layers::of_peer(&peer, &quotas, &names(5))?);
    let tower = Contender::Tower { client, quotas, keys: names_of_fred(3) };
    Ok([limiter, fred, throttled, tower, layer, peer_layer])
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
            Self::Limiter(limiters) => {
                limiters[index % limiters.len()].check(&names[index]).await?.is_admitted()
            }
            Self::Fred { client, calls, keys } => {
                let FredCall { digest, arguments } = &calls[index % calls.len()];
                let (key, arguments) = (keys[index].clone(), arguments.clone());
                let reply: Value = client.evalsha(digest, key, arguments).await?;
                first_integer(&reply) > Some(0)
            }
            Self::Throttled { limiter, quotas, keys } => {
                let quota = quotas[index % quotas.len()];
                limiter.check(keys[index].as_str(), quota).await?.is_allowed()
            }
            Self::Tower { client, quotas, keys } => {
                let (burst, interval) = quotas[index % quotas.len()];
                let key = keys[index].clone();
                tower_rate_limit_fred::rate_limit(client, key, burst, interval).await?.is_none()
            }
            Self::Layers(layers) => layers.is_admitted(index).await?,
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
