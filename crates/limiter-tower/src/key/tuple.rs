//! Keys of several parts.

use limiter_core::Key;

use super::{
    extractor::{KeyExtractor, KeySource},
    missing::MissingKey,
};
use crate::head::Head;

/// Returns the source of a key with several parts.
fn of_parts(sources: &[KeySource]) -> KeySource {
    let has = |source| sources.contains(&source);
    let is_own = has(KeySource::Own) || has(KeySource::Partly);
    match (sources.iter().any(|source| source.is_chosen()), is_own) {
        (true, true) => KeySource::Partly,
        (true, false) => KeySource::Chosen,
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

            fn is_secret(&self) -> bool {
                let ($($name,)+) = self;
                $($name.is_secret())||+
            }
        }
    )+};
}
tuples! { (A B) (A B C) (A B C D) }
