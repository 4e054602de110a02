//! Random numbers that a seed repeats.

/// A generator of random numbers: SplitMix64. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns the generator of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns another generator, whose numbers don't depend on how many are drawn from this one later.
    pub(crate) const fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number of 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// Returns one of so many places, or 0 if there are none.
    pub(crate) fn index(&mut self, places: usize) -> usize {
        usize::try_from(self.below(places as u64)).unwrap_or(0)
    }

    /// Returns a number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// Returns a signed number from `-most` to `most`.
    pub(crate) fn around_zero(&mut self, most: u32) -> i64 {
        let most = i64::from(most);
        self.between(0, 2 * most.unsigned_abs()).cast_signed() - most
    }

    /// Returns whether something happens that has so many chances in a million.
    pub(crate) fn happens(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// Returns one of several items, `None` if there are none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_range_and_repeat() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let numbers: Vec<u64> = (0..1_000).map(|_| random.between(3, 5)).collect();
            assert!(numbers.iter().all(|number| (3..=5).contains(number)));
            numbers
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Random::new(1).below(0), 0);
        assert_eq!(Random::new(1).pick::<u8>(&[]), None);
    }
}
