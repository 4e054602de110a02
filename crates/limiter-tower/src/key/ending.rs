//! What applies to a request without a key.

use limiter_core::Key;

use super::{Head, KeyExtractor, KeySource, MaybeKey, MissingKey};

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
}

/// The extractor that [`MaybeKey::or`] returns.
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
}

/// The extractor that [`MaybeKey::or_try`] returns.
pub(super) struct OrTry<K, O> {
    pub(super) first: K,
    pub(super) other: O,
}

impl<K: MaybeKey, O: MaybeKey> MaybeKey for OrTry<K, O> {
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
        (KeySource::Shared, _) | (_, KeySource::Shared) => KeySource::Shared,
        (KeySource::Own, KeySource::Own) => KeySource::Own,
    }
}
