//! Keys that are found in every request.

use std::sync::Arc;

use limiter_core::Key;

use super::missing::MissingKey;
use crate::head::Head;

/// Who decides what a request's key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// The key is the client's own: its address, or an identity that an outer layer has verified.
    Own,
    /// The client can choose it, because nothing verifies what it is made of.
    ///
    /// Such a key limits nobody by itself, since a client has a new allowance with each new key, and it may be another
    /// client's key. So a layer accepts it only beside a rule with a key of the client's own.
    Chosen,
    /// The client can choose a part of it, and another part is its own: an account and the address that asks for it.
    ///
    /// No client reaches another one's key, and each can have any number of them. So a layer accepts it beside a rule with
    /// a key of the client's own, as a chosen one, and lets a rule block it.
    Partly,
    /// Many clients share it, such as the key of a whole service or of a route.
    Shared,
}

impl KeySource {
    /// Returns whether a client can have any number of keys.
    pub(crate) const fn is_chosen(self) -> bool {
        matches!(self, Self::Chosen | Self::Partly)
    }

    /// Returns the place of a rule among those that are asked: the client's own keys first.
    pub(crate) const fn order(self) -> u8 {
        match self {
            Self::Own => 0,
            Self::Chosen | Self::Partly => 1,
            Self::Shared => 2,
        }
    }
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
    note = "say what then: `.or(another key)`, `.or_reject()`, `.or_skip()` or `.or_shared()`",
    note = "a `Result`, such as that of `ClientIp::behind`, needs a `?` first"
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

    /// Returns whether some keys are [secret](Key::secret). The default is false.
    fn is_secret(&self) -> bool {
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
    fn assume_verified(self) -> impl KeyExtractor
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

/// The extractor that `secret` returns.
pub(super) struct Secret<K>(pub(super) K);

impl<K: KeyExtractor> KeyExtractor for Secret<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.key(head).map(Key::secret)
    }

    fn source(&self) -> KeySource {
        self.0.source()
    }

    fn skips(&self) -> bool {
        self.0.skips()
    }

    fn is_secret(&self) -> bool {
        true
    }
}

/// The extractor that `assume_verified` and `shared` return.
pub(super) struct WithSource<K> {
    pub(super) key: K,
    pub(super) source: KeySource,
}

impl<K: KeyExtractor> KeyExtractor for WithSource<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.key.key(head)
    }

    fn source(&self) -> KeySource {
        self.source
    }

    fn skips(&self) -> bool {
        self.key.skips()
    }

    fn is_secret(&self) -> bool {
        self.key.is_secret()
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

            fn is_secret(&self) -> bool {
                (**self).is_secret()
            }
        }
    )*};
}
forward! { Arc Box }
