//! Blocks as they are composed of strikes, levels and a block, each a state of its own.

use super::{Settings, schedule::Random};

/// How strikes and requests use the three states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As it should be.
    Right,
    /// Strikes while the key is blocked count.
    BlockedStrikesCount,
    /// A strike that finds no room among the strikes starts a block, too.
    EachStrikeBeyond,
    /// The length of a block is computed before its level is charged.
    LevelAfterBlock,
    /// A strike while the key is blocked starts the block anew.
    StrikesExtendBlock,
    /// A strike without a state starts a block.
    FullTableStarts,
    /// A request asks for one of the permits of the longest block, not for all of them.
    BlockAskedInPart,
    /// Levels are never forgotten.
    LevelsNeverForgotten,
    /// The strikes are not reset when a block has started.
    StrikesKept,
    /// The strikes are reset before the block is written.
    ResetBeforeBlock,
    /// Whether the key is blocked is asked only before the strike is charged, and not in one step with that.
    BlockAskedBefore,
    /// A block is charged whether or not there is one.
    BlockInAnyCase,
}

impl Variant {
    /// The variants that are wrong for strikes one after the other.
    pub const WRONG_ALONE: [Self; 7] = [
        Self::BlockedStrikesCount,
        Self::LevelAfterBlock,
        Self::StrikesExtendBlock,
        Self::FullTableStarts,
        Self::BlockAskedInPart,
        Self::LevelsNeverForgotten,
        Self::StrikesKept,
    ];

    /// The variants that are wrong for strikes at the same time.
    pub const WRONG_TOGETHER: [Self; 3] =
        [Self::EachStrikeBeyond, Self::ResetBeforeBlock, Self::BlockAskedBefore];

    /// The variant that is wrong for strikes that stall.
    pub const WRONG_STALLED: Self = Self::BlockInAnyCase;
}

/// The states of one key.
#[derive(Clone, Debug)]
pub struct Composed {
    settings: Settings,
    variant: Variant,
    strikes: Vec<u64>,
    levels_end: u64,
    block_end: u64,
    /// Whether the end of a block was moved before it was reached.
    moved: bool,
}

/// A strike that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It has done nothing.
    Arrived,
    /// The key was not blocked.
    Unblocked,
    /// Its strike was charged, and may have been the last one.
    Charged {
        /// When it was charged.
        at: u64,
        /// Whether it was the last one.
        is_last: bool,
    },
    /// It starts a block.
    Starts {
        /// When its strike was charged.
        at: u64,
    },
    /// It knows the length of its block.
    Raised(Raised),
    /// It has reset the strikes too early.
    Reset(Raised),
    /// It has written a block of this length.
    Written(u64),
    /// It is over, and has started a block of this length.
    Over(Option<u64>),
}

/// A strike that has raised the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// When its strike was charged.
    at: u64,
    /// How long its block lasts.
    length: u64,
    /// What was charged for the level.
    charged: u64,
}

impl Composed {
    /// Returns the states of a key without strikes.
    #[must_use]
    pub const fn new(settings: Settings, variant: Variant) -> Self {
        Self { settings, variant, strikes: Vec::new(), levels_end: 0, block_end: 0, moved: false }
    }

    /// Returns whether the end of a block was moved before it was reached.
    #[must_use]
    pub const fn has_moved(&self) -> bool {
        self.moved
    }

    /// Returns for how long requests are refused.
    #[must_use]
    pub fn wait(&self, now: u64) -> u64 {
        let block = self.blocked_for(now);
        let Settings { strikes, within, .. } = self.settings;
        let counting: Vec<_> = self.strikes.iter().filter(|&at| now < at + within).collect();
        let full =
            counting.len().checked_sub(strikes).map(|oldest| counting[oldest] + within - now);
        block.max(full.unwrap_or(0))
    }

    /// Returns how long what requests and strikes ask of the block does not fit.
    const fn blocked_for(&self, now: u64) -> u64 {
        let spare = match self.variant {
            Variant::BlockAskedInPart => self.settings.longest - 1,
            _ => 0,
        };
        self.block_end.saturating_sub(now + spare)
    }

    /// Counts a strike in one step.
    pub fn strike(&mut self, now: u64) -> Option<u64> {
        self.strike_of(Strike::Arrived, now)
    }

    /// Counts a strike that finds no free slot in a full table.
    pub fn strike_without_state(&mut self, now: u64) -> Option<u64> {
        match self.variant {
            Variant::FullTableStarts => self.strike_of(Strike::Starts { at: now }, now),
            _ => None,
        }
    }

    fn strike_of(&mut self, mut strike: Strike, now: u64) -> Option<u64> {
        loop {
            strike = self.next(strike, now);
            if let Strike::Over(length) = strike {
                return length;
            }
        }
    }

    /// Counts strikes that arrive together: at each step, one of them continues. Returns the lengths of the blocks that
    /// they started, and for how long a request was refused at each moment after the first one, at least.
    pub fn strike_together(
        &mut self,
        number: usize,
        now: u64,
        random: &mut Random,
    ) -> (Vec<u64>, Option<u64>) {
        let mut strikes = vec![Strike::Arrived; number];
        let (mut lengths, mut refused) = (Vec::new(), None::<u64>);
        while !strikes.is_empty() {
            let index = random.below(strikes.len());
            strikes[index] = self.next(strikes[index], now);
            if let Strike::Over(length) = strikes[index] {
                strikes.swap_remove(index);
                lengths.extend(length);
            }
            let wait = self.wait(now);
            refused = refused.map(|shortest| shortest.min(wait)).or((wait > 0).then_some(wait));
        }
        (lengths, refused)
    }

    /// Takes the next step of a strike.
    pub fn next(&mut self, strike: Strike, now: u64) -> Strike {
        let is_blocked = self.blocked_for(now) > 0;
        match strike {
            Strike::Arrived if is_blocked && self.variant == Variant::StrikesExtendBlock => {
                self.write(now, self.settings.lasting);
                Strike::Over(None)
            }
            Strike::Arrived if is_blocked && self.variant != Variant::BlockedStrikesCount => {
                Strike::Over(None)
            }
            Strike::Arrived => Strike::Unblocked,
            Strike::Unblocked => self.charge(now),
            Strike::Charged { at, is_last } => match self.variant {
                Variant::BlockedStrikesCount | Variant::BlockAskedBefore if is_last => {
                    Strike::Starts { at }
                }
                Variant::BlockedStrikesCount | Variant::BlockAskedBefore => Strike::Over(None),
                _ if is_blocked => {
                    self.give_back(at);
                    Strike::Over(None)
                }
                _ if is_last => Strike::Starts { at },
                _ => Strike::Over(None),
            },
            Strike::Starts { at } => Strike::Raised(self.raise(at, now)),
            Strike::Raised(raised) if self.variant == Variant::ResetBeforeBlock => {
                self.strikes.clear();
                Strike::Reset(raised)
            }
            Strike::Raised(raised) | Strike::Reset(raised) => self.start(raised, now),
            Strike::Written(length) => {
                if self.variant != Variant::StrikesKept {
                    self.strikes.clear();
                }
                Strike::Over(Some(length))
            }
            over @ Strike::Over(_) => over,
        }
    }

    /// Charges a strike if there is room.
    fn charge(&mut self, now: u64) -> Strike {
        let Settings { strikes, within, .. } = self.settings;
        self.strikes.retain(|at| now < at + within);
        if self.strikes.len() < strikes {
            self.strikes.push(now);
            return Strike::Charged { at: now, is_last: self.strikes.len() == strikes };
        }
        match self.variant {
            Variant::EachStrikeBeyond => Strike::Starts { at: now },
            _ => Strike::Over(None),
        }
    }

    fn give_back(&mut self, at: u64) {
        if let Some(index) = self.strikes.iter().rposition(|it| *it == at) {
            self.strikes.remove(index);
        }
    }

    /// Raises the level.
    fn raise(&mut self, at: u64, now: u64) -> Raised {
        let Settings { forget_after, .. } = self.settings;
        let most = self.settings.levels();
        let debt = self.levels_end.saturating_sub(now);
        let raised = debt + forget_after;
        let charged = if raised <= most * forget_after { forget_after } else { 0 };
        if charged > 0 {
            self.levels_end = now + raised;
        }
        let level = match self.variant {
            Variant::LevelAfterBlock => debt.div_ceil(forget_after).max(1),
            _ => raised.div_ceil(forget_after),
        };
        Raised { at, length: self.settings.length(level.min(most)), charged }
    }

    /// Writes a block if there is no block.
    fn start(&mut self, Raised { at, length, charged }: Raised, now: u64) -> Strike {
        let is_unconditional =
            matches!(self.variant, Variant::BlockInAnyCase | Variant::BlockedStrikesCount);
        if now < self.block_end && !is_unconditional {
            self.give_back(at);
            self.levels_end -= charged;
            return Strike::Over(None);
        }
        self.write(now, length);
        Strike::Written(length)
    }

    fn write(&mut self, now: u64, length: u64) {
        let end = now.max(self.block_end) + length;
        self.moved |= now < self.block_end;
        self.block_end = end;
    }

    /// Lets time pass.
    pub fn pass(&mut self, by: u64) {
        if self.variant == Variant::LevelsNeverForgotten && self.levels_end > 0 {
            self.levels_end += by;
        }
    }

    /// Forgets the strikes and the levels.
    pub fn success(&mut self) {
        self.strikes.clear();
        self.levels_end = 0;
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        *self = Self::new(self.settings, self.variant);
    }
}
