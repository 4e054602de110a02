//! The key under which a rule counts a request.
//!
//! A [`KeyExtractor`] finds a key in every request: [`ClientIp`], [`FixedKey`], [`MethodKey`], [`MatchedPathKey`], and
//! tuples of extractors. A [`MaybeKey`] may find none: [`ExtensionKey`], [`HeaderKey`] and [`key_fn`]. Say what then,
//! and it is a [`KeyExtractor`]:
//!
//! | ending | a request without the key |
//! |---|---|
//! | [`.or(other)`](MaybeKey::or) | is counted under another key, such as the address |
//! | [`.or_reject()`](MaybeKey::or_reject) | is answered with 400 |
//! | [`.or_skip()`](MaybeKey::or_skip) | is not counted by this rule |
//! | [`.or_shared()`](MaybeKey::or_shared) | is counted under one key for all of them |

mod client_ip;
mod closure;
mod combined;
mod ending;
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
    closure::key_fn,
    extension::ExtensionKey,
    fixed::FixedKey,
    header::HeaderKey,
    missing::MissingKey,
    route::MethodKey,
};
use self::{
    combined::{Secret, WithSource},
    ending::{Ended, Ending, Or, OrTry},
};
pub use crate::head::Head;

/// Who decides what a request's key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// The key is the client's own: its address, or an identity that an outer layer has verified.
    Own,
    /// The client can choose it, because nothing verifies what it is made of.
    ///
    /// Such a key limits nobody by itself, since a client has a new allowance with each new key, and it may be another
    /// client's key. So a layer accepts it only beside a rule with another key, which is charged first.
    Chosen,
    /// Many clients share it, such as the key of a whole service or of a route.
    Shared,
}

/// Finds a key in every request.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::key::{Head, KeyExtractor, KeySource, MissingKey};
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
///     fn source(&self) -> KeySource {
///         KeySource::Own // The authentication layer refuses unknown users.
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` may find no key in a request",
    note = "say what then: `.or(another key)`, `.or_reject()`, `.or_skip()` or `.or_shared()`"
)]
pub trait KeyExtractor: Send + Sync {
    /// Returns the request's key.
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has no key, which says whose fault that is.
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey>;

    /// Returns who decides what the key is. The default is [`KeySource::Chosen`], the most careful one.
    fn source(&self) -> KeySource {
        KeySource::Chosen
    }

    /// Returns whether there are requests for which [`key`](Self::key) returns [`MissingKey::Skipped`]. The default is
    /// false.
    fn skips(&self) -> bool {
        false
    }

    /// Returns an extractor that marks the key as a [secret](Key::secret), such as an API key: `Debug` hides it, and
    /// stores outside of the process hold a keyed digest of it.
    fn secret(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Secret(self)
    }

    /// States that the key is the client's own: no request with a made-up value reaches the layer.
    fn verified(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        WithSource { key: self, source: KeySource::Own }
    }

    /// States that many clients share the key, and that it has few values.
    fn shared(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        WithSource { key: self, source: KeySource::Shared }
    }
}

/// Finds a key in some requests. An ending says what applies to the others, and makes it a [`KeyExtractor`].
///
/// ```
/// use limiter_tower::{ClientIp, key::{ExtensionKey, MaybeKey}};
///
/// #[derive(Clone)]
/// struct User(u64);
///
/// let user = ExtensionKey::new(|user: &User| user.0.into());
/// let by_user_or_address = user.or(ClientIp::peer());
/// let by_user = user.or_skip();
/// ```
pub trait MaybeKey: Send + Sync {
    /// Returns the request's key.
    ///
    /// # Errors
    ///
    /// [`MissingKey::Absent`] if the request has no such key. Other errors are not what an ending applies to: a key that
    /// can't be read is rejected, because a client could skip the limit with it.
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey>;

    /// Returns who decides what the key is. The default is [`KeySource::Chosen`], the most careful one.
    fn source(&self) -> KeySource {
        KeySource::Chosen
    }

    /// Returns how many extractors are asked in turn.
    #[doc(hidden)]
    fn branches(&self) -> u32 {
        1
    }

    /// Counts a request without this key under another one.
    ///
    /// The keys of `other` are marked, so that user 7 of one extractor is not organisation 7 of the other.
    /// [`Rule::key`](crate::Rule::key) returns the key that is counted.
    fn or<K: KeyExtractor>(self, other: K) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Or { first: self, other }
    }

    /// Looks for another key, which a request may not have either.
    fn or_try<K: MaybeKey>(self, other: K) -> impl MaybeKey
    where
        Self: Sized,
    {
        OrTry { first: self, other }
    }

    /// Rejects a request without this key: 400, or gRPC `INVALID_ARGUMENT`.
    fn or_reject(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Ended { key: self, ending: Ending::Reject }
    }

    /// Does not count a request without this key.
    fn or_skip(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Ended { key: self, ending: Ending::Skip }
    }

    /// Counts all requests without this key under one key, which they share.
    fn or_shared(self) -> impl KeyExtractor
    where
        Self: Sized,
    {
        Ended { key: self, ending: Ending::Share }
    }

    /// Returns an extractor that marks the key as a [secret](Key::secret), as [`KeyExtractor::secret`] does.
    fn secret(self) -> impl MaybeKey
    where
        Self: Sized,
    {
        Secret(self)
    }

    /// States that the key is the client's own, as [`KeyExtractor::verified`] does.
    fn verified(self) -> impl MaybeKey
    where
        Self: Sized,
    {
        WithSource { key: self, source: KeySource::Own }
    }

    /// States that many clients share the key, as [`KeyExtractor::shared`] does.
    fn shared(self) -> impl MaybeKey
    where
        Self: Sized,
    {
        WithSource { key: self, source: KeySource::Shared }
    }
}

macro_rules! forward {
    ($($pointer:ident)*) => {$(
        impl<K: KeyExtractor + ?Sized> KeyExtractor for $pointer<K> {
            fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
                (**self).key(head)
            }

            fn source(&self) -> KeySource {
                (**self).source()
            }

            fn skips(&self) -> bool {
                (**self).skips()
            }
        }
    )*};
}
forward! { Arc Box }
