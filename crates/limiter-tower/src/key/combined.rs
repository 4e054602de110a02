//! Extractors that are made of others.

use limiter_core::Key;

use super::{KeyExtractor, MissingKey, MissingKind};
use crate::Head;

/// The extractor that [`KeyExtractor::or`] returns.
#[derive(Clone, Debug)]
pub struct Or<K, F> {
    first: K,
    fallback: F,
}

impl<K, F> Or<K, F> {
    pub(super) const fn new(first: K, fallback: F) -> Self {
        Self { first, fallback }
    }
}

impl<K: KeyExtractor, F: KeyExtractor> KeyExtractor for Or<K, F> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match self.first.key(head) {
            Err(missing) if missing.kind() == MissingKind::Absent => self.fallback.key(head),
            result => result,
        }
    }

    fn is_client_chosen(&self) -> bool {
        self.first.is_client_chosen() || self.fallback.is_client_chosen()
    }
}

/// The extractor that [`KeyExtractor::secret`] returns.
#[derive(Clone, Debug)]
pub struct Secret<K>(K);

impl<K> Secret<K> {
    pub(super) const fn new(key: K) -> Self {
        Self(key)
    }
}

impl<K: KeyExtractor> KeyExtractor for Secret<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.key(head).map(Key::secret)
    }

    fn is_client_chosen(&self) -> bool {
        self.0.is_client_chosen()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))+) => {$(
        #[expect(non_snake_case, reason = "each value is named as its type")]
        impl<$($name: KeyExtractor),+> KeyExtractor for ($($name,)+) {
            fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
                let ($($name,)+) = self;
                Ok(Key::tuple([$($name.key(head)?),+]))
            }

            fn is_client_chosen(&self) -> bool {
                let ($($name,)+) = self;
                $($name.is_client_chosen())||+
            }
        }
    )+};
}
tuples! { (A B) (A B C) (A B C D) }
