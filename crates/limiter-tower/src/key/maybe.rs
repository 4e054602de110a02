//! Keys that some requests have, and what applies to the others.

use limiter_core::Key;

use super::{
    extractor::{KeyExtractor, KeySource, Secret, WithSource},
    missing::MissingKey,
};
use crate::head::Head;

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

    /// Returns whether some keys are [secret](Key::secret). The default is false.
    fn is_secret(&self) -> bool {
        false
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
        Or { first: self, other }
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

    /// States that the key is the client's own, as [`KeyExtractor::assume_verified`] does.
    fn assume_verified(self) -> impl MaybeKey
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

impl<K: MaybeKey> MaybeKey for Secret<K> {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.find(head).map(Key::secret)
    }

    fn source(&self) -> KeySource {
        self.0.source()
    }

    fn is_secret(&self) -> bool {
        true
    }

    fn branches(&self) -> u32 {
        self.0.branches()
    }
}

impl<K: MaybeKey> MaybeKey for WithSource<K> {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.key.find(head)
    }

    fn source(&self) -> KeySource {
        self.source
    }

    fn is_secret(&self) -> bool {
        self.key.is_secret()
    }

    fn branches(&self) -> u32 {
        self.key.branches()
    }
}

/// What applies to a request without the key.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    Reject,
    Skip,
    Share,
}

/// The extractor that the endings without another key return.
pub(super) struct Ended<K> {
    pub(super) key: K,
    pub(super) ending: Ending,
}

impl<K: MaybeKey> KeyExtractor for Ended<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match (self.key.find(head), self.ending) {
            (Err(MissingKey::Absent(_)), Ending::Skip) => Err(MissingKey::Skipped),
            // No extractor returns the key of no parts.
            (Err(MissingKey::Absent(_)), Ending::Share) => Ok(Key::tuple([])),
            (found, _) => found,
        }
    }

    fn source(&self) -> KeySource {
        match self.ending {
            Ending::Share => either(self.key.source(), KeySource::Shared),
            Ending::Reject | Ending::Skip => self.key.source(),
        }
    }

    fn skips(&self) -> bool {
        matches!(self.ending, Ending::Skip)
    }

    fn is_secret(&self) -> bool {
        self.key.is_secret()
    }
}

/// The extractor that [`MaybeKey::or`] and [`MaybeKey::or_try`] return.
pub(super) struct Or<K, O> {
    pub(super) first: K,
    pub(super) other: O,
}

impl<K: MaybeKey, O: KeyExtractor> KeyExtractor for Or<K, O> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match self.first.find(head) {
            Err(MissingKey::Absent(_)) => {
                self.other.key(head).map(|key| marked(self.first.branches(), key))
            }
            found => found,
        }
    }

    fn source(&self) -> KeySource {
        either(self.first.source(), self.other.source())
    }

    fn skips(&self) -> bool {
        self.other.skips()
    }

    fn is_secret(&self) -> bool {
        self.first.is_secret() || self.other.is_secret()
    }
}

impl<K: MaybeKey, O: MaybeKey> MaybeKey for Or<K, O> {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match self.first.find(head) {
            Err(MissingKey::Absent(_)) => {
                self.other.find(head).map(|key| marked(self.first.branches(), key))
            }
            found => found,
        }
    }

    fn source(&self) -> KeySource {
        either(self.first.source(), self.other.source())
    }

    fn is_secret(&self) -> bool {
        self.first.is_secret() || self.other.is_secret()
    }

    fn branches(&self) -> u32 {
        self.first.branches() + self.other.branches()
    }
}

/// Marks a key with the number of the extractor that has found it, so that equal keys of two extractors are different.
fn marked(branch: u32, key: Key<'_>) -> Key<'_> {
    Key::tuple([Key::tuple([]), branch.into(), key])
}

/// Returns the source of a key that one of two extractors finds: the less trusted one.
fn either(one: KeySource, other: KeySource) -> KeySource {
    match (one, other) {
        (KeySource::Chosen, _) | (_, KeySource::Chosen) => KeySource::Chosen,
        (KeySource::Partly, KeySource::Shared) | (KeySource::Shared, KeySource::Partly) => {
            KeySource::Chosen
        }
        (KeySource::Partly, _) | (_, KeySource::Partly) => KeySource::Partly,
        (KeySource::Shared, _) | (_, KeySource::Shared) => KeySource::Shared,
        (KeySource::Own, KeySource::Own) => KeySource::Own,
    }
}
