//! Users and passwords, fixed or from a provider.

use std::{error::Error, fmt, future::Future, pin::Pin, time::Duration};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::config::{Config, CredentialProvider, Server},
};

/// A user and a password.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(deny_unknown_fields))]
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
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub(crate) struct Hidden<T>(pub(crate) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

type Fetched<'a> =
    Pin<Box<dyn Future<Output = Result<(Option<String>, Option<String>), FredError>> + Send + 'a>>;

/// A function that returns the current user and password.
#[derive(Debug)]
pub(crate) struct Provider {
    fetch: Hidden<Box<dyn Fn() -> Fetched<'static> + Send + Sync>>,
    /// How often connections get new credentials.
    pub(crate) renewal: Duration,
}

impl Provider {
    /// The shortest time between two renewals.
    pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

    pub(crate) fn new<F>(renewal: Duration, fetch: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(String, String), Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let fetch = move || -> Fetched<'static> {
            let fetched = fetch();
            Box::pin(async {
                let (username, password) = fetched.await.map_err(|error| {
                    FredError::new(ErrorKind::Auth, format!("no credentials: {error}"))
                })?;
                Ok((Some(username), Some(password)))
            })
        };
        Self { fetch: Hidden(Box::new(fetch)), renewal }
    }
}

/// As the library asks for credentials when it connects. Without the macro `async_trait`.
impl CredentialProvider for Provider {
    fn fetch<'a, 'b, 'c>(&'a self, _: Option<&'b Server>) -> Fetched<'c>
    where
        'a: 'c,
        'b: 'c,
    {
        (self.fetch.0)()
    }
}
