//! A limiter's settings from a configuration file.

use std::{fmt, time::Duration};

use limiter_core::{Error, Policy};
use serde::Deserialize;

use crate::{
    Builder, ConnectOptions, Connection, FailurePolicy, RedisLimiter, ScriptClient, connect_with,
};

/// The settings of limiters in a configuration file, with the feature `serde`.
///
/// Only `url` is required; the comments show the defaults of the others.
///
/// ```
/// let settings: limiter_redis::RedisSettings = toml::from_str(r#"
///     url = "rediss://10.0.0.1:6379"
///     username = "limiter"          # "default" if there is only a password
///     password = "secret"           # none
///     replica_reads = false
///     prefix = "limiter"
///     deadline_ms = 50
///     on_failure = "report"         # or "allow", "deny", { local = { processes = 4 } }
///     breaker = { failures = 5, open_ms = 100 }
///     batching = true
///     denial_cache = 10_000
/// "#)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each setting is that of the method of [`Builder`] or [`ConnectOptions`] with this name, and has its
/// range. `on_failure` is [`Builder::failure_policy`]. With `redis-sentinel://`, `sentinel_username` and
/// `sentinel_password` are for the sentinels.
///
/// # Errors
///
/// An unknown field, a missing one, and a value of the wrong type are errors of the format, whose message
/// names the field. A value out of its range is an error of [`RedisSettings::connect`].
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    #[serde(deserialize_with = "field::url")]
    url: String,
    #[serde(default, deserialize_with = "field::username")]
    username: Option<String>,
    #[serde(default, deserialize_with = "field::password")]
    password: Option<String>,
    #[serde(default, deserialize_with = "field::sentinel_username")]
    sentinel_username: Option<String>,
    #[serde(default, deserialize_with = "field::sentinel_password")]
    sentinel_password: Option<String>,
    #[serde(default, deserialize_with = "field::replica_reads")]
    replica_reads: bool,
    #[serde(default, deserialize_with = "field::prefix")]
    prefix: Option<String>,
    #[serde(default, deserialize_with = "field::deadline_ms")]
    deadline_ms: Option<u64>,
    #[serde(default, deserialize_with = "field::on_failure")]
    on_failure: FailurePolicy,
    #[serde(default, deserialize_with = "field::breaker")]
    breaker: Breaker,
    #[serde(default, deserialize_with = "field::batching")]
    batching: Option<bool>,
    #[serde(default, deserialize_with = "field::denial_cache")]
    denial_cache: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Breaker {
    failures: Option<u32>,
    open_ms: Option<u64>,
}

/// Reads each field, so that an error names it in every format.
mod field {
    use serde::{Deserialize, Deserializer, de::Error};

    macro_rules! fields {
        ($($name:ident: $type:ty),+ $(,)?) => {
            $(pub(super) fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                <$type>::deserialize(from)
                    .map_err(|why| D::Error::custom(format_args!("{}: {why}", stringify!($name))))
            })+
        };
    }

    fields! {
        url: String,
        username: Option<String>,
        password: Option<String>,
        sentinel_username: Option<String>,
        sentinel_password: Option<String>,
        replica_reads: bool,
        prefix: Option<String>,
        deadline_ms: Option<u64>,
        on_failure: crate::FailurePolicy,
        breaker: super::Breaker,
        batching: Option<bool>,
        denial_cache: Option<usize>,
    }
}

impl RedisSettings {
    /// Returns a limiter of `policy` on a connection of its own.
    ///
    /// # Errors
    ///
    /// As [`connect_with`] and [`Builder::build`].
    pub async fn connect(&self, policy: Policy) -> Result<RedisLimiter, Error> {
        self.builder(self.connection().await?, policy).build()
    }

    /// Returns a connection, for several limiters.
    ///
    /// # Errors
    ///
    /// As [`connect_with`].
    pub async fn connection(&self) -> Result<Connection, Error> {
        let mut options = ConnectOptions::new();
        if self.replica_reads {
            options = options.with_replica_reads();
        }
        if let Some((username, password)) = credentials(&self.username, &self.password) {
            options = options.with_credentials(username, password);
        }
        let of_sentinels = credentials(&self.sentinel_username, &self.sentinel_password);
        if let Some((username, password)) = of_sentinels {
            options = options.with_sentinel_credentials(username, password);
        }
        connect_with(&self.url, &options).await
    }

    /// Returns a builder with these settings, for those that a file can't contain.
    pub fn builder<C: ScriptClient>(&self, client: C, policy: Policy) -> Builder<C> {
        let mut builder = RedisLimiter::builder(client, policy).failure_policy(self.on_failure);
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(deadline) = self.deadline_ms {
            builder = builder.deadline(Duration::from_millis(deadline));
        }
        if let Some(batching) = self.batching {
            builder = builder.batching(batching);
        }
        if let Some(denials) = self.denial_cache {
            builder = builder.denial_cache(denials);
        }
        let Breaker { failures, open_ms } = self.breaker;
        let failures = failures.unwrap_or(Builder::<C>::DEFAULT_BREAKER_FAILURES);
        let open = open_ms.map_or(Builder::<C>::DEFAULT_BREAKER_OPEN, Duration::from_millis);
        builder.breaker(failures, open)
    }
}

/// Returns a user and a password if there is one of them.
fn credentials<'a>(
    username: &'a Option<String>,
    password: &'a Option<String>,
) -> Option<(&'a str, &'a str)> {
    let given = username.is_some() || password.is_some();
    given.then(|| {
        (username.as_deref().unwrap_or("default"), password.as_deref().unwrap_or_default())
    })
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the address and the passwords.
        f.debug_struct("RedisSettings")
            .field("prefix", &self.prefix)
            .field("deadline_ms", &self.deadline_ms)
            .field("on_failure", &self.on_failure)
            .field("breaker", &self.breaker)
            .field("batching", &self.batching)
            .field("denial_cache", &self.denial_cache)
            .finish_non_exhaustive()
    }
}
