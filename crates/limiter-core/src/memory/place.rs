//! Where a key's slot is: from its hash to the lines of a table.

/// Maps the high bits of a hash onto the indices of any length: the tag has the low ones.
#[inline]
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
