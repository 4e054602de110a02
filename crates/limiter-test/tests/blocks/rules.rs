//! Blocks after strikes: the rules in plain numbers, and a model of how they are composed of three states.
//!
//! [`Rules`] state what a caller sees: each strike happens at one moment. [`Composed`] is how `limiter_core::Blocks` does
//! it, in steps between which others may run, with variants that are wrong on purpose. Times are in milliseconds.

#![expect(clippy::indexing_slicing, reason = "a model that fails fails its test")]

mod composed;
mod schedule;

pub use composed::{Composed, Strike, Variant};
pub use schedule::{Random, Step};

/// The settings of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many strikes start a block.
    pub strikes: usize,
    /// How long a strike counts.
    pub within: u64,
    /// How long the first block lasts.
    pub lasting: u64,
    /// How long a block lasts at most.
    pub longest: u64,
    /// How long a level is kept.
    pub forget_after: u64,
}

impl Settings {
    /// Returns how many levels there are: the last one is the first whose block is the longest.
    #[must_use]
    pub fn levels(&self) -> u64 {
        (1..).find(|&level| self.length(level) == self.longest).unwrap_or(1)
    }

    /// Returns how long a block of this level lasts.
    #[must_use]
    pub fn length(&self, level: u64) -> u64 {
        let doubled =
            u32::try_from(level - 1).ok().and_then(|shift| self.lasting.checked_shl(shift));
        doubled.unwrap_or(self.longest).min(self.longest)
    }
}

/// What callers see of one key.
#[derive(Clone, Debug)]
pub struct Rules {
    settings: Settings,
    /// When the strikes were that count since the last block.
    strikes: Vec<u64>,
    /// When all levels are forgotten.
    levels_end: u64,
    block_end: u64,
}

impl Rules {
    /// Returns the rules for a key without strikes.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings, strikes: Vec::new(), levels_end: 0, block_end: 0 }
    }

    /// Returns for how long requests are refused.
    #[must_use]
    pub const fn wait(&self, now: u64) -> u64 {
        self.block_end.saturating_sub(now)
    }

    /// Counts a strike, and returns the length of the block that it starts.
    pub fn strike(&mut self, now: u64) -> Option<u64> {
        let Settings { strikes, within, forget_after, .. } = self.settings;
        if now < self.block_end {
            return None;
        }
        self.strikes.retain(|at| now < at + within);
        self.strikes.push(now);
        if self.strikes.len() < strikes {
            return None;
        }
        // Each level is forgotten after those below it.
        let raised = self.levels_end.max(now) + forget_after;
        let most = self.settings.levels();
        let level = (raised - now).div_ceil(forget_after).min(most);
        // More levels than there are can't be kept.
        if raised - now <= most * forget_after {
            self.levels_end = raised;
        }
        let length = self.settings.length(level);
        self.strikes.clear();
        self.block_end = now + length;
        Some(length)
    }

    /// Forgets the strikes and the levels.
    pub fn success(&mut self) {
        self.strikes.clear();
        self.levels_end = 0;
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        *self = Self::new(self.settings);
    }
}
