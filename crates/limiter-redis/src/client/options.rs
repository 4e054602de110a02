//! Options of a connection that an address can't contain.

use std::fmt;

#[cfg(feature = "tls")]
use fred::{rustls::ClientConfig, types::config::TlsConnector};
#[cfg(feature = "tls")]
use limiter_core::Error;
use tokio::runtime::Handle;

#[cfg(feature = "tls")]
use super::tls;

/// Options for [`connect_with`](crate::connect_with). All are optional.
///
/// ```
/// use limiter_redis::ConnectOptions;
///
/// let options = ConnectOptions::new().with_replica_reads();
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub(crate) replica_reads: bool,
    pub(crate) server: Option<Credentials>,
    pub(crate) sentinel: Option<Credentials>,
    pub(crate) runtime: Option<Handle>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsConnector>,
}

/// A user and a password.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: Hidden<String>,
}

impl Credentials {
    pub(crate) fn new(username: &str, password: &str) -> Self {
        Self { username: username.to_owned(), password: Hidden(password.to_owned()) }
    }
}

/// A value that `Debug` does not show, such as a password.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub(crate) struct Hidden<T>(pub(crate) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ConnectOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the replicas of a cluster serve peeks.
    ///
    /// A replica lags behind its primary. If no replica replies, the primary is asked. Without a cluster
    /// this has no effect.
    #[must_use]
    pub fn with_replica_reads(mut self) -> Self {
        self.replica_reads = true;
        self
    }

    /// Runs the connection on `runtime` instead of a thread of its own.
    ///
    /// This saves a thread. But a check may then miss its deadline because a task of that runtime keeps
    /// a worker thread busy, and the connection ends with the runtime. A server that sends a reply nested
    /// thousands of levels deep overflows the stack of a worker thread.
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

    /// Sets the user and the password for the sentinels. If they only have a password, the user is
    /// `default`.
    ///
    /// Those in the address are for the servers that the sentinels watch.
    #[must_use]
    pub fn with_sentinel_credentials(mut self, username: &str, password: &str) -> Self {
        self.sentinel = Some(Credentials::new(username, password));
        self
    }

    /// Trusts the certificates in `pem`, and those that they signed, instead of the system's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if there is no
    /// certificate, or an invalid one.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, Error> {
        self.tls = Some(tls::trusting(pem)?);
        Ok(self)
    }

    /// Sets the whole TLS configuration, for example with a client certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config.into());
        self
    }
}
