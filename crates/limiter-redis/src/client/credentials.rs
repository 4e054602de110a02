//! Users and passwords, fixed or from a provider.

use std::{error::Error, fmt, future::Future, pin::Pin, time::Duration};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, CredentialProvider, Server},
};

/// A user and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Hidden<String>,
    pub(crate) password: Hidden<String>,
}

impl Credentials {
    pub(crate) fn new(username: &str, password: &str) -> Self {
        Self { username: Hidden(username.to_owned()), password: Hidden(password.to_owned()) }
    }

    pub(crate) fn set(&self, config: &mut Config) {
        config.username = Some(self.username.0.clone());
        config.password = Some(self.password.0.clone());
    }
}

/// A value that `Debug` does not show, such as a password.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub(crate) struct Hidden<T>(pub(crate) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

type Fetched = Result<(String, String), Box<dyn Error + Send + Sync>>;
type Fetch = dyn Fn() -> Pin<Box<dyn Future<Output = Fetched> + Send>> + Send + Sync;

/// A function that returns the current user and password.
#[derive(Debug)]
pub(crate) struct Provider {
    fetch: Hidden<Box<Fetch>>,
    /// How often connections get new credentials.
    pub(crate) renewal: Duration,
}

impl Provider {
    /// The shortest time between two renewals.
    pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

    pub(crate) fn new<F>(renewal: Duration, fetch: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Fetched> + Send + 'static,
    {
        Self { fetch: Hidden(Box::new(move || Box::pin(fetch()))), renewal }
    }
}

/// As the library asks for credentials when it connects. Without the macro `async_trait`.
impl CredentialProvider for Provider {
    fn fetch<'a, 'b, 'c>(
        &'a self,
        _: Option<&'b Server>,
    ) -> Pin<
        Box<dyn Future<Output = Result<(Option<String>, Option<String>), FredError>> + Send + 'c>,
    >
    where
        'a: 'c,
        'b: 'c,
    {
        let fetched = (self.fetch.0)();
        Box::pin(async move {
            let (username, password) = fetched.await.map_err(|error| {
                FredError::new(ErrorKind::Auth, format!("no credentials: {error}"))
            })?;
            Ok((Some(username), Some(password)))
        })
    }
}
