//! The ids of permits.

use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;

/// The ids of permits: 8 characters that differ between processes, and a number.
#[derive(Debug)]
pub(crate) struct Ids {
    prefix: [u8; 8],
}

const CHARACTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

impl Ids {
    /// Returns ids that differ from those by another seed.
    pub(crate) fn new(hasher: &SeedableRandomState) -> Self {
        let random = hasher.hash_one("ids of permits");
        Self { prefix: std::array::from_fn(|place| character(random >> (6 * place))) }
    }

    /// Returns the id with a number, of 16 bytes at most for any number that is reached.
    pub(crate) fn id(&self, number: u64) -> Bytes {
        let mut id = self.prefix.to_vec();
        let mut left = number;
        loop {
            id.push(character(left));
            left >>= 6;
            if left == 0 {
                return id.into();
            }
        }
    }
}

/// Returns the character of the lowest six bits.
fn character(bits: u64) -> u8 {
    let place = usize::try_from(bits % 64).unwrap_or(0);
    CHARACTERS.get(place).copied().unwrap_or(b'0')
}
