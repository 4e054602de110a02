//! Options of a connection that an address can't contain.

use std::{error::Error as StdError, future::Future, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{
    circuit_breaker::CircuitBreaker,
    credentials::{Credentials, Provider},
};

/// Options for [`connect_with`](crate::connect_with). All are optional.
///
/// ```
/// use limiter_redis::ConnectOptions;
///
/// let options = ConnectOptions::new().with_name("orders");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub(crate) server: Option<Credentials>,
    pub(crate) sentinel: Option<Credentials>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) provider: Option<Arc<Provider>>,
    pub(crate) name: Option<String>,
    /// How long a server may be silent before it is not called any more.
    pub(crate) silence: Option<Duration>,
    /// How long a connection may take that has to be made.
    pub(crate) required_within: Option<Duration>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<fred::types::config::TlsConnector>,
}

impl ConnectOptions {
    /// The default name of connections.
    pub(crate) const NAME: &str = "limiter";

    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the connection on `runtime` instead of a thread of its own.
    ///
    /// This saves two thread switches a check. But a check may then miss its deadline because a task of that
    /// runtime keeps a worker thread busy, and the connection ends with the runtime.
    /// A server that sends a reply nested thousands of levels deep overflows the stack of a worker
    /// thread.
    #[must_use]
    pub fn with_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the user and the password for the servers, so that they need not be in the address. If the
    /// servers only have a password, the user is `default`.
    #[must_use]
    pub fn with_credentials(mut self, username: &str, password: &str) -> Self {
        self.server = Some(Credentials::new(username, password));
        self
    }

    /// Sets a function that returns the current user and password for the servers, such as a token that a
    /// cloud issues for minutes. If there is only a password, the user is `default`.
    ///
    /// It is called for each connection that is made, and every `renewal` for those that exist, which then
    /// send `AUTH` and lose no call. Choose a `renewal` well within the life of a token. If it fails, a
    /// connection that exists keeps its credentials, which is logged at WARN. It runs on the thread of the
    /// connection, so it must not block, and has half a second when a connection is made: tokens from a
    /// slow service are best fetched ahead.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_redis::ConnectOptions;
    ///
    /// # async fn token() -> std::io::Result<String> { Ok(String::new()) }
    /// let options = ConnectOptions::new().with_credential_provider(Duration::from_secs(600), || async {
    ///     Ok(("limiter".to_owned(), token().await?))
    /// });
    /// ```
    #[must_use]
    pub fn with_credential_provider<F>(
        mut self,
        renewal: Duration,
        provider: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(String, String), Box<dyn StdError + Send + Sync>>>
            + Send
            + 'static,
    {
        self.provider = Some(Arc::new(Provider::new(renewal, provider)));
        self
    }

    /// Sets the name of each connection, as `CLIENT LIST` shows it: printable ASCII without spaces, `limiter`
    /// by default. A user of the server without `+client|setname` has connections without a name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets for how long calls to a server fail before it is not called any more, but for a probe every 100 ms: from
    /// 10 ms to 10 s, 250 ms by default. See [`CircuitBreaker`].
    ///
    /// It should be longer than pauses of the server that are usual, such as those to fork. The deadlines of limiters
    /// don't matter, unless they are longer: then it opens after the deadline.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence);
        self
    }

    /// Requires a connection: [`connect_with`](crate::connect_with) returns an error if the server, in a cluster
    /// every known primary, does not reply to a `PING` `within` that time, or if a script may not call what those of limiters
    /// call. That is tried once, with keys that begin with `limiter:{probe}`; a user who has keys with another prefix alone may
    /// run scripts, and no more is known.
    ///
    /// It is off by default: a service starts without its server, and its checks return errors until the
    /// server replies. The option says nothing about later outages. For an endpoint that reports
    /// whether a service is ready, use [`Connection::is_connected`](crate::Connection::is_connected) or
    /// [`Connection::ping`](crate::Connection::ping).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use limiter_redis::{ConnectOptions, connect_with};
    ///
    /// # async fn example() -> Result<(), limiter_core::Error> {
    /// let options = ConnectOptions::new().with_required_connection(Duration::from_secs(5));
    /// let connection = connect_with("redis://127.0.0.1:6379", &options).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_required_connection(mut self, within: Duration) -> Self {
        self.required_within = Some(within);
        self
    }

    /// Sets the user and the password for the sentinels. If they only have a password, the user is
    /// `default`.
    ///
    /// Those in the address are for the servers that the sentinels watch.
    #[must_use]
    pub fn with_sentinel_credentials(mut self, username: &str, password: &str) -> Self {
        self.sentinel = Some(Credentials::new(username, password));
        self
    }

    /// Returns what is wrong with options that fit no address.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = &self.name
            && (name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(format!(
                "the name {name:?} in the options is not printable ASCII without spaces"
            ));
        }
        self.silence.map_or(Ok(()), CircuitBreaker::check)?;
        if let Some(renewal) = self.provider.as_ref().map(|provider| provider.renewal)
            && renewal < Provider::SHORTEST
        {
            return Err(format!(
                "the renewal of credentials in the options is {renewal:?}; use 1 ms or more"
            ));
        }
        Ok(())
    }
}
