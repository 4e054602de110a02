//! The rules of blocks after strikes, in plain numbers. Times are in milliseconds.

/// The settings of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How many strikes start a block.
    pub(crate) strikes: usize,
    /// How long a strike counts.
    pub(crate) within: u64,
    /// How long the first block lasts.
    pub(crate) lasting: u64,
    /// How long a block lasts at most.
    pub(crate) longest: u64,
    /// How long a level is kept.
    pub(crate) forget_after: u64,
}

impl Settings {
    /// Returns how many levels there are: the last one is the first whose block is the longest.
    pub(crate) fn levels(&self) -> u64 {
        (1..).find(|&level| self.length(level) == self.longest).unwrap_or(1)
    }

    /// Returns how long a block of this level lasts.
    pub(crate) fn length(&self, level: u64) -> u64 {
        let doubled =
            u32::try_from(level - 1).ok().and_then(|shift| self.lasting.checked_shl(shift));
        doubled.unwrap_or(self.longest).min(self.longest)
    }
}

/// What callers see of one key.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    settings: Settings,
    /// When the strikes were that count since the last block.
    strikes: Vec<u64>,
    /// When all levels are forgotten.
    levels_end: u64,
    block_end: u64,
}

impl Rules {
    /// Returns the rules for a key without strikes.
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, strikes: Vec::new(), levels_end: 0, block_end: 0 }
    }

    /// Returns for how long requests are refused.
    pub(crate) const fn wait(&self, now: u64) -> u64 {
        self.block_end.saturating_sub(now)
    }

    /// Counts a strike, and returns the length of the block that it starts.
    pub(crate) fn strike(&mut self, now: u64) -> Option<u64> {
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
    pub(crate) fn success(&mut self) {
        self.strikes.clear();
        self.levels_end = 0;
    }

    /// Forgets all.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.settings);
    }
}
