//! Random settings and schedules.

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};

use super::Settings;

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes.
    Wait(u64),
    /// So many strikes arrive at the same time.
    Strikes(usize),
    /// A strike whose key finds no free slot in a full table.
    WithoutState,
    /// A success, which clears the key.
    Success,
    /// The block is lifted.
    Reset,
}

/// Random choices from a seed. The first ones differ between seeds, as those of `XorShift` do not.
#[derive(Debug)]
pub struct Random(TestRng);

impl Random {
    /// Returns the choices of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// Returns a number below another one.
    pub fn below(&mut self, number: usize) -> usize {
        self.0.next_u32() as usize % number
    }

    /// Returns one of several values.
    ///
    /// # Panics
    ///
    /// If there is no block.
    pub fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns settings whose blocks are shorter or longer than the time within which strikes count.
    pub fn settings(&mut self) -> Settings {
        let strikes = self.of(&[1, 2, 3, 5]);
        let (within, lasting) = (self.of(&[10, 100, 700]), self.of(&[7, 60, 100, 1_000]));
        let longest = lasting * self.of(&[1, 2, 3, 8, 20]);
        let forget_after = self.of(&[longest, longest + within, longest * 3]);
        Settings { strikes, within, lasting, longest, forget_after }
    }

    /// Returns a step of a key that is refused for `wait`, with strikes that arrive alone or together.
    pub fn step(&mut self, settings: &Settings, wait: u64, together: bool) -> Step {
        let Settings { within, lasting, forget_after, strikes, .. } = *settings;
        match self.below(16) {
            0 => Step::Success,
            1 if self.below(4) == 0 => Step::Reset,
            2 => Step::WithoutState,
            // To the end of the block, or just before it.
            3 | 4 if wait > 0 => Step::Wait(wait - u64::from(self.below(3) == 0)),
            3..=5 => Step::Wait(self.of(&[1, 1, within / 3, within, lasting / 2, forget_after])),
            _ if together => Step::Strikes(self.below(strikes + 3) + 1),
            _ => Step::Strikes(1),
        }
    }
}
