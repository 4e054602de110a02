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

use self::combined::{Or, Secret, Verified};
#[cfg(feature = "axum")]
pub use self::route::MatchedPathKey;
pub use self::{
    client_ip::{ClientIp, Networks, PeerAddr},
    closure::key_fn,
    extension::ExtensionKey,
    fixed::FixedKey,
    header::HeaderKey,
    missing::MissingKey,
    route::MethodKey,
};
pub use crate::head::Head;

/// Returns the key under which a request is counted.
///
/// [`ClientIp`] is the client's address. [`ExtensionKey`], [`HeaderKey`], [`MatchedPathKey`],
/// [`MethodKey`], [`FixedKey`] and closures, by [`key_fn`], are others. A tuple of extractors
/// combines their keys, and [`or`](Self::or) falls back.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::key::{Head, KeyExtractor, MissingKey};
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
///
///     fn is_client_chosen(&self) -> bool {
///         false // The authentication layer refuses unknown users.
///     }
/// }
/// ```
pub trait KeyExtractor: Send + Sync {
    /// Returns the request's key.
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has no key, which states whether the client or the server is at
    /// fault.
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey>;

    /// Returns whether a client can choose its key, because nothing verifies what it is made of.
    ///
    /// Such a key limits nobody by itself, since a client has a new allowance with each new key. So a
    /// layer accepts it only beside a rule with another key. Return `false` only for what an outer layer
    /// has verified, or what has few values.
    fn is_client_chosen(&self) -> bool;

    /// Returns an extractor that asks `fallback` if the key is [absent](MissingKey::Absent). An
    /// invalid key, and a fault of the server, do not fall back.
    fn or<F: KeyExtractor>(self, fallback: F) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Or { first: self, fallback }
    }

    /// Returns an extractor that marks the key as a [secret](Key::secret), such as an API key: it is
    /// redacted in `Debug`, and stores outside of the process hold a keyed digest of it.
    fn secret(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Secret(self)
    }

    /// States that clients can't choose this key: no request with a made-up value reaches the layer.
    fn verified(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Verified(self)
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
