//! Where a key's slot is: from its hash to the lines of a table.

use crate::Timestamp;
use core::time::Duration;

/// No slot of a key's lines is free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    pub(super) now: Timestamp,
    /// The time until the first of them is free, if its key is not charged again.
    pub(super) wait: Duration,
}

impl Full {
    pub(super) fn free_at(&self) -> Timestamp {
        self.now.saturating_add(self.wait)
    }
}

/// Maps the high bits of a hash onto the indices of any length: the tag has the low ones.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a product over 2^64 is below the length")]
pub(super) fn index(hash: u64, length: usize) -> usize {
    ((u128::from(hash) * length as u128) >> 64) as usize
}

/// Returns a second index, independent of the first.
#[inline]
pub(super) fn second_index(hash: u64, length: usize) -> usize {
    index(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15), length)
}

/// Returns which of the parts of a table a hash belongs to.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the index is below the length")]
pub(super) fn part_of<T>(parts: &[T], hash: u64) -> &T {
    &parts[index(hash, parts.len())]
}
