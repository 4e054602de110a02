//! The key under which a request is counted.

mod client_ip;
mod closure;
mod combined;
mod extension;
mod fixed;
mod header;
mod missing;
mod route;

use std::sync::Arc;

use limiter_core::Key;

#[cfg(feature = "axum")]
pub use self::route::MatchedPathKey;
pub use self::{
    client_ip::{ClientIp, Networks, PeerAddr},
    closure::{KeyFn, key_fn},
    combined::{Or, Secret},
    extension::ExtensionKey,
    fixed::FixedKey,
    header::HeaderKey,
    missing::{MissingKey, MissingKind},
    route::{MethodKey, PathKey},
};
use crate::Head;

/// Returns the key under which a request is counted.
///
/// [`ClientIp`] is the client's address. [`ExtensionKey`], [`HeaderKey`], [`MatchedPathKey`],
/// [`PathKey`], [`MethodKey`], [`FixedKey`] and closures, by [`key_fn`], are others. A tuple of
/// extractors combines their keys, and [`or`](Self::or) falls back.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::{Head, KeyExtractor, MissingKey};
///
/// /// An authentication layer has inserted it into the request's extensions.
/// #[derive(Clone)]
/// struct User(u64);
///
/// struct ByUser;
///
/// impl KeyExtractor for ByUser {
///     fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
///         match head.extensions.get::<User>() {
///             Some(User(id)) => Ok((*id).into()),
///             None => Err(MissingKey::absent("no user is logged in")),
///         }
///     }
/// }
/// ```
pub trait KeyExtractor: Send + Sync {
    /// Returns the request's key.
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has no key. Its kind states whether the client or the server is at
    /// fault.
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey>;

    /// Returns whether clients control the key, because nothing verifies it.
    ///
    /// Such a key limits nobody by itself, so a layer requires another rule beside it. The default is
    /// `false`.
    fn is_client_chosen(&self) -> bool {
        false
    }

    /// Returns an extractor that asks `fallback` if the key is [absent](MissingKind::Absent). An
    /// invalid key, and a fault of the server, do not fall back.
    fn or<F: KeyExtractor>(self, fallback: F) -> Or<Self, F>
    where
        Self: Sized,
    {
        Or::new(self, fallback)
    }

    /// Returns an extractor that marks the key as a [secret](Key::secret), such as an API key: it is
    /// redacted in `Debug`, and stores outside of the process hold a keyed digest of it.
    fn secret(self) -> Secret<Self>
    where
        Self: Sized,
    {
        Secret::new(self)
    }
}

macro_rules! forward {
    ($($pointer:ident)*) => {$(
        impl<K: KeyExtractor + ?Sized> KeyExtractor for $pointer<K> {
            fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
                (**self).key(head)
            }

            fn is_client_chosen(&self) -> bool {
                (**self).is_client_chosen()
            }
        }
    )*};
}
forward! { Arc Box }
