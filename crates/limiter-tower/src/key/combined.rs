//! Extractors that are made of others.

use limiter_core::Key;

use super::{Head, KeyExtractor, MissingKey};

/// The extractor that [`KeyExtractor::or`] returns.
pub(super) struct Or<K, F> {
    pub(super) first: K,
    pub(super) fallback: F,
}

impl<K: KeyExtractor, F: KeyExtractor> KeyExtractor for Or<K, F> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match self.first.key(head) {
            Err(MissingKey::Absent(_)) => self.fallback.key(head),
            result => result,
        }
    }

    fn is_client_chosen(&self) -> bool {
        self.first.is_client_chosen() || self.fallback.is_client_chosen()
    }
}

/// The extractor that [`KeyExtractor::secret`] returns.
pub(super) struct Secret<K>(pub(super) K);

impl<K: KeyExtractor> KeyExtractor for Secret<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.key(head).map(Key::secret)
    }

    fn is_client_chosen(&self) -> bool {
        self.0.is_client_chosen()
    }
}

/// The extractor that [`KeyExtractor::verified`] returns.
pub(super) struct Verified<K>(pub(super) K);

impl<K: KeyExtractor> KeyExtractor for Verified<K> {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.key(head)
    }

    fn is_client_chosen(&self) -> bool {
        false
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
