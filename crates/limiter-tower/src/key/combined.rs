//! Extractors that are made of others.

use limiter_core::Key;

use super::{Head, KeyExtractor, KeySource, MaybeKey, MissingKey};

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
}

impl<K: MaybeKey> MaybeKey for Secret<K> {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.0.find(head).map(Key::secret)
    }

    fn source(&self) -> KeySource {
        self.0.source()
    }

    fn branches(&self) -> u32 {
        self.0.branches()
    }
}

/// The extractor that `verified` and `shared` return.
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
}

impl<K: MaybeKey> MaybeKey for WithSource<K> {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        self.key.find(head)
    }

    fn source(&self) -> KeySource {
        self.source
    }

    fn branches(&self) -> u32 {
        self.key.branches()
    }
}

/// Returns the source of a key with several parts: chosen if a part is, else the client's own if a part is.
fn of_parts(sources: &[KeySource]) -> KeySource {
    let has = |source| sources.contains(&source);
    match (has(KeySource::Chosen), has(KeySource::Own)) {
        (true, _) => KeySource::Chosen,
        (false, true) => KeySource::Own,
        (false, false) => KeySource::Shared,
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

            fn source(&self) -> KeySource {
                let ($($name,)+) = self;
                of_parts(&[$($name.source()),+])
            }

            fn skips(&self) -> bool {
                let ($($name,)+) = self;
                $($name.skips())||+
            }
        }
    )+};
}
tuples! { (A B) (A B C) (A B C D) }
