//! Digests of keys.

use std::hash::{BuildHasher, RandomState};

use limiter_core::Key;
use siphasher::sip128::SipHasher13;

/// Digests of keys, for tables in which a key that a client has chosen must take no more room than any other. They are
/// keyed with a random secret, so that no client finds two keys of one digest.
pub(crate) struct Digests(SipHasher13);

impl Default for Digests {
    fn default() -> Self {
        let [first, second] = [0, 1].map(|half| RandomState::new().hash_one(half));
        Self(SipHasher13::new_with_keys(first, second))
    }
}

impl Digests {
    pub(crate) fn of(&self, key: &Key<'_>) -> u128 {
        let mut text = Vec::new();
        key.encode(&mut text);
        self.0.hash(&text).as_u128()
    }
}
