//! Blocks: keys that are refused for a time after strikes.

mod blocks;

use alloc::{format, vec::Vec};
use core::time::Duration;

pub use blocks::Blocks;

use crate::{Algorithm, Error, ErrorKind, Policy, Quota};

const FIFTEEN_MINUTES: Duration = Duration::from_secs(15 * 60);

/// The settings of blocks: after how many strikes within which time a key is refused, and for how long.
///
/// A strike is whatever the caller chooses: a refusal, a wrong password, a response with status 401. [`Blocks`] count
/// strikes and refuse keys.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::Block;
///
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// // The tenth strike within 10 minutes blocks a key for 5 minutes. If the key is blocked again, for 10, 20 and
/// // 40 minutes, and then for an hour each time.
/// let block = Block::after(10).within(10 * MINUTE).lasting(5 * MINUTE).doubling(60 * MINUTE);
/// # let _ = block;
/// ```
///
/// The values are checked by [`Blocks::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "settings do nothing until limiters are made of them"]
pub struct Block {
    strikes: u64,
    within: Duration,
    lasting: Duration,
    /// `None` if every block lasts equally long.
    longest: Option<Duration>,
    /// `None` for the default.
    forget_after: Option<Duration>,
    capacity: usize,
    pub(crate) clears_on_success: bool,
}

impl Block {
    /// The most strikes before a block: 1,000,000.
    pub const MAX_STRIKES: u64 = 1_000_000;

    /// The longest block: 366 days.
    pub const MAX_LENGTH: Duration = Quota::MAX_WINDOW;

    /// The capacity in memory unless [`Block::capacity`] sets another: 10,000 keys.
    pub const DEFAULT_CAPACITY: usize = 10_000;

    /// Returns the settings of blocks that begin with this many strikes, from 1 to [`Block::MAX_STRIKES`], within 15
    /// minutes, and last for 15 minutes.
    pub const fn after(strikes: u64) -> Self {
        Self {
            strikes,
            within: FIFTEEN_MINUTES,
            lasting: FIFTEEN_MINUTES,
            longest: None,
            forget_after: None,
            capacity: Self::DEFAULT_CAPACITY,
            clears_on_success: false,
        }
    }

    /// Sets how long a strike counts, a whole number of milliseconds up to 366 days. The default is 15 minutes.
    ///
    /// A block begins as soon as that many strikes are within this time, wherever it begins.
    pub const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Sets how long a block lasts, a whole number of milliseconds up to [`Block::MAX_LENGTH`]; with
    /// [`doubling`](Self::doubling), the first one. The default is 15 minutes.
    ///
    /// It may be shorter than the time within which strikes count: after a block, the key starts without strikes.
    pub const fn lasting(self, lasting: Duration) -> Self {
        Self { lasting, ..self }
    }

    /// Sets that each repeated block lasts twice as long as the one before, up to `longest`, a whole number of
    /// milliseconds up to [`Block::MAX_LENGTH`]. Without it, all blocks last equally long.
    ///
    /// Each block raises the key's level by one, and a block of level 3 lasts four times as long as one of level 1. See
    /// [`forget_after`](Self::forget_after) for when levels are forgotten.
    pub const fn doubling(self, longest: Duration) -> Self {
        Self { longest: Some(longest), ..self }
    }

    /// Sets after what time a block is forgotten, so that the next one is one level lower: a whole number of
    /// milliseconds from the longest block to 366 days. It counts from the beginning of a block, and several levels are
    /// forgotten one after the other. It matters only with [`doubling`](Self::doubling).
    ///
    /// The default is the longest block and the time within which strikes count, together, at most 366 days: a key that
    /// is struck again and again, however slowly, stays blocked for the longest time.
    pub const fn forget_after(self, time: Duration) -> Self {
        Self { forget_after: Some(time), ..self }
    }

    /// Sets for about how many keys that are struck or blocked at the same time there is room in memory, from 1 to
    /// [`Builder::MAX_CAPACITY`](crate::Builder::MAX_CAPACITY). The default is 10,000. Other keys are not blocked while the
    /// table is full. Stores that allocate as keys arrive ignore it.
    pub const fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Sets that [`Blocks::success`] forgets the strikes and the levels of a key.
    ///
    /// Use it only if the key contains the account. With a key that is an address, an attacker who logs in to an account
    /// of their own between the attempts is never blocked.
    pub const fn clear_on_success(self) -> Self {
        Self { clears_on_success: true, ..self }
    }

    /// Returns the policies of the states, for a limiter whose policy has this name.
    fn policies(&self, name: &str) -> Result<Policies, Error> {
        const LONGEST_NAME: usize = 64 - "-strikes".len();
        if name.len() > LONGEST_NAME {
            let fault = format!("use at most {LONGEST_NAME} bytes for a limiter with blocks");
            return Err(Error::invalid(ErrorKind::InvalidName, "policy name", name, fault));
        }
        let strikes = self.strikes(&format!("{name}-strikes"))?;
        let (shorter, longest) = self.lengths()?;
        let levels = match shorter.len() {
            0 => None,
            others => Some(self.levels(&format!("{name}-levels"), others + 1)?),
        };
        let name = format!("{name}-block");
        // One state, whatever the length: its debt is the rest of the block.
        let block = |length| {
            let policy = Policy::new(&name, Algorithm::Gcra, Quota::new(1, length)?)?;
            Ok(policy.with_horizon(longest)?.with_identity("gcra.block"))
        };
        let shorter = shorter.into_iter().map(block).collect::<Result<_, _>>()?;
        Ok(Policies { strikes, levels, shorter, longest: block(longest)? })
    }

    /// Returns the policy of strikes: a log, because it counts exactly, and because stores never lease its permits.
    fn strikes(&self, name: &str) -> Result<Policy, Error> {
        let strikes = self.strikes;
        if !(1..=Self::MAX_STRIKES).contains(&strikes) {
            let fault = format!("use 1 to {} strikes", Self::MAX_STRIKES);
            return Err(invalid(&format!("after {strikes}"), &fault));
        }
        let within = checked("within", self.within)?;
        if u128::from(strikes) > within.as_millis() * u128::from(Quota::MAX_RATE / 1_000) {
            let given = format!("after {strikes} within {within:?}");
            return Err(invalid(&given, "use at most 5,000 strikes a millisecond"));
        }
        Policy::new(name, Algorithm::SlidingLog, Quota::new(strikes, within)?)
    }

    /// Returns how long a block of each level lasts but the last one, and how long one of the last level does.
    fn lengths(&self) -> Result<(Vec<Duration>, Duration), Error> {
        let mut length = checked("lasting", self.lasting)?;
        let longest = checked("doubling", self.longest.unwrap_or(length))?;
        if longest < length {
            let given = format!("lasting {length:?} doubling {longest:?}");
            return Err(invalid(&given, "the longest block must be at least as long as the first"));
        }
        let mut shorter = Vec::new();
        while length < longest {
            shorter.push(length);
            length = length.saturating_mul(2);
        }
        Ok((shorter, longest))
    }

    /// Returns the policy of levels, which keeps up to `levels` of them.
    fn levels(&self, name: &str, levels: usize) -> Result<Policy, Error> {
        let longest = self.longest.unwrap_or(self.lasting);
        let forget_after = match self.forget_after {
            Some(time) => checked("forget_after", time)?,
            None => longest.saturating_add(self.within).min(Quota::MAX_WINDOW),
        };
        let given = || {
            format!("lasting {:?} doubling {longest:?} forget_after {forget_after:?}", self.lasting)
        };
        if forget_after < longest {
            let fault = "levels must be kept for at least the longest block; use a longer time, or shorter blocks";
            return Err(invalid(&given(), fault));
        }
        let burst = u64::try_from(levels).unwrap_or(u64::MAX);
        let quota = Quota::new(1, forget_after)?.try_with_burst(burst).map_err(|_| {
            let fault = format!(
                "all {levels} levels must be forgotten within 1,830 days; use a longer first block, a shorter \
                 longest one, or forget levels earlier"
            );
            invalid(&given(), &fault)
        })?;
        Policy::new(name, Algorithm::Gcra, quota)
    }
}

/// The policies of the three states of a key.
struct Policies {
    strikes: Policy,
    /// `None` if there is one level.
    levels: Option<Policy>,
    /// Blocks of each level but the last one. The only permit of a block takes as long as the block to recover.
    shorter: Vec<Policy>,
    /// Blocks of the last level.
    longest: Policy,
}

/// Returns a time if it is a whole number of milliseconds up to the longest window.
fn checked(setting: &str, time: Duration) -> Result<Duration, Error> {
    if !time.is_zero() && time <= Quota::MAX_WINDOW && time.subsec_nanos().is_multiple_of(1_000_000)
    {
        return Ok(time);
    }
    Err(invalid(
        &format!("{setting} {time:?}"),
        "use a whole number of milliseconds from 1ms to 366d",
    ))
}

fn invalid(given: &str, fault: &str) -> Error {
    Error::invalid(ErrorKind::InvalidSetting, "block", given, fault)
}
