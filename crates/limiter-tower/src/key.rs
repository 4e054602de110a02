//! Under which key a request is counted.

mod closure;
mod fixed;
mod header;
mod peer;

use std::{borrow::Cow, fmt, sync::Arc};

use http::request::Parts;
use limiter_core::Key;

pub use closure::{KeyFn, key_fn};
pub use fixed::FixedKey;
pub use header::HeaderKey;
pub use peer::PeerAddress;

/// Finds the key under which a request is counted.
///
/// [`PeerAddress`], [`HeaderKey`], [`FixedKey`] and any closure by way of [`key_fn`] are extractors;
/// an `Arc<dyn KeyExtractor>` is one that is chosen at run time.
///
/// ```
/// use http::request::Parts;
/// use limiter_core::Key;
/// use limiter_tower::{KeyExtractor, MissingKey};
///
/// /// The user that an authentication layer has put into the request.
/// struct User(u64);
///
/// struct ByUser;
///
/// impl KeyExtractor for ByUser {
///     fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey> {
///         match request.extensions.get::<User>() {
///             Some(User(id)) => Ok((*id).into()),
///             None => Err(MissingKey::server("no authentication ran before the rate limit")),
///         }
///     }
/// }
/// ```
pub trait KeyExtractor: Send + Sync {
    /// Returns the request's key.
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has none, whose fault that is, and why.
    fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey>;
}

impl<K: KeyExtractor + ?Sized> KeyExtractor for Arc<K> {
    fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey> {
        (**self).extract(request)
    }
}

/// A request has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    reason: Cow<'static, str>,
    by_server: bool,
}

impl MissingKey {
    /// The client left out what makes the key.
    pub fn client(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), by_server: false }
    }

    /// The server is not set up so that there is a key.
    pub fn server(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), by_server: true }
    }

    pub(crate) const fn is_by_server(&self) -> bool {
        self.by_server
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for MissingKey {}
