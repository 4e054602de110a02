//! What a random number chooses.

/// How many subjects there are.
pub(super) const SUBJECTS: u64 = 2;

/// Which operation is next, and how.
pub(super) struct Choice(pub(super) u64);

impl Choice {
    /// Returns a number below `most`.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        let chosen = self.0 % most;
        self.0 = (self.0 / most) ^ self.0.rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        chosen
    }

    pub(super) fn index(&mut self, most: usize) -> usize {
        usize::try_from(self.below(most as u64)).unwrap()
    }

    /// Returns a subject, mostly the first one.
    pub(super) fn subject(&mut self) -> usize {
        usize::try_from(self.below(2 * SUBJECTS).saturating_sub(SUBJECTS)).unwrap()
    }
}
