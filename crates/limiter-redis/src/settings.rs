//! A limiter's settings from a configuration file.

use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use limiter_core::{
    Clock, Error, ErrorKind, Fallback, MemoryLimiter, Policy, SystemClock, Timer, Timestamp,
    WaitingLimiter,
};
use serde::Deserialize;

use crate::{
    Builder, ConnectOptions, Connection, RedisLimiter, ScriptClient,
    client::credentials::{Credentials, Hidden},
    connect_with,
    context::Settings,
};

/// The settings of limiters in a configuration file, with the feature `serde`.
///
/// Only `url` is required; the comments show the defaults of the others.
///
/// ```
/// let settings: limiter_redis::RedisSettings = toml::from_str(r#"
///     url = "rediss://10.0.0.1:6379"
///     credentials = { username = "limiter", password = "secret" }   # none
///     name = "limiter"
///     required_connection_ms = 5_000                # none
///     silence_ms = 250
///     root_certificates = "/etc/redis/ca.pem"      # those of the system
///     prefix = "limiter"
///     key_secret_file = "/run/secrets/limiter"      # none
///     deadline_ms = 50
///     local_share = { processes = 4 }               # none
///     batching = true
///     denial_cache = 10_000
///     lease = false
///     lease_keys = 10_000
/// "#)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each setting is that of the method of [`Builder`] or [`ConnectOptions`] with this name, and has its
/// range. With `redis-sentinel://`, `sentinel_credentials` are for the sentinels.
/// `root_certificates` is a PEM file, for the feature `tls`.
/// `local_share` adds a [`Fallback`]: see [`RedisSettings::with_share`].
/// [`Builder::key_secret`] is `key_secret`, or the text of the file `key_secret_file` without a line break at its end.
///
/// # Errors
///
/// An unknown field, a missing one, and a value of the wrong type are errors of the format, which names the
/// field or its place. A value out of its range, and a file that can't be read, are errors of
/// [`RedisSettings::connect`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    url: Hidden<String>,
    credentials: Option<Credentials>,
    sentinel_credentials: Option<Credentials>,
    name: Option<String>,
    required_connection_ms: Option<u64>,
    silence_ms: Option<u64>,
    #[cfg(feature = "tls")]
    root_certificates: Option<PathBuf>,
    prefix: Option<String>,
    key_secret: Option<Hidden<String>>,
    key_secret_file: Option<PathBuf>,
    deadline_ms: Option<u64>,
    local_share: Option<LocalShare>,
    batching: Option<bool>,
    denial_cache: Option<usize>,
    lease: Option<bool>,
    lease_keys: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocalShare {
    processes: NonZeroU32,
}

impl RedisSettings {
    /// Returns a limiter of `policy` on a connection of its own, and with `local_share` a fallback in memory.
    ///
    /// # Errors
    ///
    /// As [`connect_with`], [`Builder::build_on`] and [`with_share`](Self::with_share).
    pub async fn connect(&self, policy: Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        self.with_share(self.builder(policy)?.build_on(self.connection().await?)?)
    }

    /// Returns a limiter that was made from these settings; with `local_share` it decides in memory while the store fails,
    /// as a [`Fallback`] that is [shared](Fallback::sharing) among so many processes.
    ///
    /// # Errors
    ///
    /// As [`Fallback::sharing`].
    pub fn with_share<C: ScriptClient>(
        &self,
        limiter: RedisLimiter<C>,
    ) -> Result<Arc<dyn WaitingLimiter>, Error> {
        let Some(LocalShare { processes }) = &self.local_share else {
            return Ok(Arc::new(limiter));
        };
        let timer = ClientTimer(limiter.sender.client.clone(), SystemClock::new());
        let local = MemoryLimiter::builder(limiter.policy().clone()).clock(timer).build()?;
        Ok(Arc::new(Fallback::new(limiter).with(local).sharing(*processes)?))
    }

    /// Returns a connection, for several limiters.
    ///
    /// # Errors
    ///
    /// As [`connect_with`].
    pub async fn connection(&self) -> Result<Connection, Error> {
        let options = ConnectOptions {
            name: self.name.clone(),
            required_within: self.required_connection_ms.map(Duration::from_millis),
            silence: self.silence_ms.map(Duration::from_millis),
            server: self.credentials.clone(),
            sentinel: self.sentinel_credentials.clone(),
            // What a file can't contain. Without `..`, so that a new option fails to compile until it is here.
            runtime: None,
            provider: None,
            #[cfg(feature = "tls")]
            tls: None,
        };
        #[cfg(feature = "tls")]
        let options = match &self.root_certificates {
            Some(path) => options.with_root_certificates(&read("root_certificates", path)?)?,
            None => options,
        };
        connect_with(&self.url.0, &options).await
    }

    /// Returns the secret for keys from where the settings say, if they do.
    fn secret(&self) -> Result<Option<Vec<u8>>, Error> {
        match (&self.key_secret, &self.key_secret_file) {
            (None, None) => Ok(None),
            (Some(secret), None) => Ok(Some(secret.0.clone().into_bytes())),
            (None, Some(path)) => {
                let mut secret = read("key_secret_file", path)?;
                while matches!(secret.last(), Some(b'\n' | b'\r')) {
                    secret.pop();
                }
                Ok(Some(secret))
            }
            _ => Err(invalid("key_secret and key_secret_file: use one of them".to_owned())),
        }
    }

    /// Returns a builder with these settings, apart from `local_share`, for those that a file can't contain.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the secret for keys can't be read.
    pub fn builder(&self, policy: Policy) -> Result<Builder, Error> {
        fn set<T>(setting: &mut T, given: Option<T>) {
            if let Some(given) = given {
                *setting = given;
            }
        }
        let mut builder = RedisLimiter::builder(policy);
        // Without `..`, so that a new setting fails to compile until it is read from files, or listed as not in them.
        let Settings {
            prefix,
            key_secret,
            deadline,
            // Of requests in flight.
            local_share: _,
            denials,
            batching,
            lease,
            lease_keys,
            observer: _,
            clock: _,
            hasher: _,
        } = &mut builder.settings;
        set(prefix, self.prefix.clone());
        *key_secret = self.secret()?.map(Hidden);
        set(deadline, self.deadline_ms.map(Duration::from_millis));
        set(batching, self.batching);
        set(denials, self.denial_cache);
        set(lease, self.lease);
        set(lease_keys, self.lease_keys);
        Ok(builder)
    }
}

/// The machine's clock, by which callers on any runtime wait, as those of the client do.
struct ClientTimer<C>(C, SystemClock);

impl<C: ScriptClient> Clock for ClientTimer<C> {
    fn now(&self) -> Timestamp {
        self.1.now()
    }

    fn unix_time(&self) -> Timestamp {
        self.1.unix_time()
    }
}

impl<C: ScriptClient> Timer for ClientTimer<C> {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.sleep(moment.saturating_since(self.now())))
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|why| invalid(format!("{setting} {path:?}: {why}")))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}
