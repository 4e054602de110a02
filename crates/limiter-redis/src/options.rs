//! What a connection may need beside an address.

use std::fmt;

#[cfg(feature = "tls")]
use fred::{rustls::ClientConfig, types::config::TlsConnector};
#[cfg(feature = "tls")]
use limiter_core::Error;

#[cfg(feature = "tls")]
use crate::tls;

/// What [`connect_with`](crate::connect_with) is told beside an address. There need be nothing.
///
/// ```
/// use limiter_redis::ConnectOptions;
///
/// let options = ConnectOptions::new().with_replica_reads();
/// ```
#[derive(Clone, Default)]
pub struct ConnectOptions {
    pub(crate) replica_reads: bool,
    pub(crate) sentinel: Option<Credentials>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsConnector>,
}

/// A user and a password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl ConnectOptions {
    /// Returns options that change nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the replicas of a cluster run the scripts that write nothing, such as those that look
    /// at a key.
    ///
    /// What a replica tells lags behind its primary, by as much as its replication does. Where no
    /// replica answers, the primary is asked; so it always is where there is no cluster.
    #[must_use]
    pub fn with_replica_reads(mut self) -> Self {
        self.replica_reads = true;
        self
    }

    /// Sets the user and the password for the sentinels themselves. The user of those that only
    /// have a password is `default`.
    ///
    /// Without it there are none: those in the address are for the servers that the sentinels
    /// watch.
    #[must_use]
    pub fn with_sentinel_credentials(mut self, username: &str, password: &str) -> Self {
        let (username, password) = (username.to_owned(), password.to_owned());
        self.sentinel = Some(Credentials { username, password });
        self
    }

    /// Trusts the certificates in `pem`, and those that they signed, in place of the system's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if there is no
    /// certificate, or one that can't be read.
    #[cfg(feature = "tls")]
    pub fn with_root_certificates(mut self, pem: &[u8]) -> Result<Self, Error> {
        self.tls = Some(tls::trusting(pem)?);
        Ok(self)
    }

    /// Sets all of TLS, such as a certificate of the client's own.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config.into());
        self
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        let sentinel = self.sentinel.as_ref().map(|credentials| &credentials.username);
        let mut debug = f.debug_struct("ConnectOptions");
        debug.field("replica_reads", &self.replica_reads).field("sentinel_username", &sentinel);
        #[cfg(feature = "tls")]
        debug.field("has_tls", &self.tls.is_some());
        debug.finish()
    }
}
