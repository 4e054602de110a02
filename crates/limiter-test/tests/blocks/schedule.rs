//! Random settings and schedules.

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};

use crate::rules::Settings;

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Time passes.
    Wait(u64),
    Strike,
    /// A success, which clears the key.
    Success,
    /// The block is lifted.
    Reset,
}

/// Random choices from a seed. The first ones differ between seeds, as those of `XorShift` do not.
#[derive(Debug)]
pub(crate) struct Random(TestRng);

impl Random {
    /// Returns the choices of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// Returns a number below another one.
    pub(crate) fn below(&mut self, number: usize) -> usize {
        self.0.next_u32() as usize % number
    }

    /// Returns one of several values.
    pub(crate) fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns settings whose blocks are shorter or longer than the time within which strikes count.
    pub(crate) fn settings(&mut self) -> Settings {
        let strikes = self.of(&[1, 2, 3, 5]);
        let (within, lasting) = (self.of(&[10, 100, 700]), self.of(&[7, 60, 100, 1_000]));
        let longest = lasting * self.of(&[1, 2, 3, 8, 20]);
        let forget_after = self.of(&[longest, longest + within, longest * 3]);
        Settings { strikes, within, lasting, longest, forget_after }
    }

    /// Returns a step of a key that is refused for `wait`.
    pub(crate) fn step(&mut self, settings: &Settings, wait: u64) -> Step {
        let Settings { within, lasting, forget_after, .. } = *settings;
        match self.below(16) {
            0 => Step::Success,
            1 if self.below(4) == 0 => Step::Reset,
            // To the end of the block, or just before it.
            3 | 4 if wait > 0 => Step::Wait(wait - u64::from(self.below(3) == 0)),
            2..=5 => Step::Wait(self.of(&[1, 1, within / 3, within, lasting / 2, forget_after])),
            _ => Step::Strike,
        }
    }
}
