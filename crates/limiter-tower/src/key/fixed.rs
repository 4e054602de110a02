//! One key for all requests.

use limiter_core::Key;

use super::{Head, KeyExtractor, KeySource, MissingKey};

/// Counts all requests under one key: a limit of the whole service.
#[derive(Clone, Debug)]
pub struct FixedKey(Key<'static>);

impl FixedKey {
    /// Returns an extractor of `key`.
    pub fn new(key: impl Into<Key<'static>>) -> Self {
        Self(key.into())
    }
}

impl KeyExtractor for FixedKey {
    fn key<'r>(&self, _: Head<'r>) -> Result<Key<'r>, MissingKey> {
        Ok(self.0.clone())
    }

    fn source(&self) -> KeySource {
        KeySource::Shared
    }
}
