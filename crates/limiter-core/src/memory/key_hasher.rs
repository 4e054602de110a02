//! From a key to its hash, and to where that is in a table.

use core::{
    fmt,
    hash::{BuildHasher, Hash, Hasher},
};
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::Key;

/// What a limiter hashes its keys by. Clones return the same hashes.
#[derive(Clone)]
pub(crate) enum KeyHasher {
    /// Under a seed of the limiter's own.
    Default(RandomState),
    /// One that the limiter was given.
    Given(Arc<dyn Fn(&Key<'_>) -> u64 + Send + Sync>),
}

impl KeyHasher {
    pub(crate) fn given(hasher: impl BuildHasher + Send + Sync + 'static) -> Self {
        Self::Given(Arc::new(move |key| hasher.hash_one(key)))
    }

    /// Returns the hasher of a sibling: the one that was given, or one under another seed.
    pub(crate) fn sibling(&self) -> Self {
        match self {
            Self::Default(_) => Self::default(),
            given @ Self::Given(_) => given.clone(),
        }
    }

    /// Returns a number for the states of an identity, by which no key's hash can be made into that of another.
    pub(crate) fn salt(&self, identity: &str) -> u64 {
        // Otherwise a key named like one identity would have the hash of a key named like another.
        self.hash(&Key::from(identity)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
    }

    /// Returns the hash of a key, as `BuildHasher::hash_one` does, which is not inlined.
    #[expect(clippy::manual_hash_one, reason = "4 % of a check: `cargo xtask bench memory`")]
    #[inline(always)]
    pub(crate) fn hash(&self, key: &Key<'_>) -> u64 {
        match self {
            Self::Default(seed) => {
                let mut hasher = seed.build_hasher();
                key.hash(&mut hasher);
                hasher.finish()
            }
            Self::Given(hash) => hash(key),
        }
    }
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self::Default(RandomState::default())
    }
}

/// Without the seed, which would let others prepare keys with equal hashes.
impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher")
    }
}

/// Maps the high bits of a hash onto the indices of any length.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a product over 2^64 is below the length")]
pub(crate) fn index(hash: u64, length: usize) -> usize {
    ((u128::from(hash) * length as u128) >> 64) as usize
}

/// Returns a second index, independent of the first.
#[inline]
pub(crate) fn second_index(hash: u64, length: usize) -> usize {
    index(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15), length)
}

/// Returns which of the parts of a table a hash belongs to.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the index is below the length")]
pub(crate) fn part_of<T>(parts: &[T], hash: u64) -> &T {
    &parts[index(hash, parts.len())]
}
