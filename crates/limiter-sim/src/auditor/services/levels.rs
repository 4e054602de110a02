//! The levels of a key whose blocks double, and how long the block of each lasts.
//!
//! A raise adds a level for a time, behind the levels that count: so many levels count as have to be forgotten. The block
//! that a process starts after its raise lasts as the level of one of the raises says to which no block belongs yet. A
//! process that knows that no level can be raised starts one of the longest.

use crate::{
    service_plan::{Blocking, Doubling},
    vocabulary::Micros,
};

/// Moments of the server are rounded to milliseconds by some algorithms.
pub(super) const ROUNDED: Micros = 2_000;

/// How long after all levels were in use a process may start a block because of that: it has cached that, was stopped, or
/// its call was held.
const LATE: Micros = 4_000_000;

/// The levels of a key, as the server has executed them.
#[derive(Debug)]
pub(super) struct Levels {
    lengths: Vec<Micros>,
    /// After what time a level is forgotten. `None` if blocks don't double.
    forget_after: Option<Micros>,
    /// When all levels are forgotten.
    until: Micros,
    /// The lengths that the raises allow to which no block belongs: the shortest and the longest, which differ at the moment
    /// at which a level is forgotten.
    raised: Vec<(Micros, Micros)>,
    /// Until when all levels were in use, the last time.
    full_until: Micros,
}

impl Levels {
    pub(super) fn new(by: &Blocking) -> Self {
        let lengths = by.lengths();
        // Blocks whose first time is the longest have one level, which is not stored.
        let doubling = by.doubling.filter(|_| lengths.len() > 1);
        Self {
            lengths,
            forget_after: doubling.map(|Doubling { forget_after, .. }| forget_after),
            until: 0,
            raised: Vec::new(),
            full_until: 0,
        }
    }

    pub(super) fn are_fresh(&mut self) {
        (self.until, self.full_until) = (0, 0);
        self.raised.clear();
    }

    /// Notes that a call has changed the levels, all of which are then forgotten after a time.
    pub(super) fn changed(&mut self, script: &str, (at, forgotten_in): (Micros, Micros)) {
        let Some(forget_after) = self.forget_after else { return };
        match script {
            "reset" => self.until = at,
            "refund" => {
                // One level at most, less what has drained since it was raised.
                let least = self.until.saturating_sub(forget_after).max(at);
                self.until = (at + forgotten_in).clamp(least, self.until.max(least));
            }
            _ => {
                self.until = self.until.max(at) + forget_after;
                let level = |at: Micros| {
                    let level = self.until.saturating_sub(at).div_ceil(forget_after).max(1);
                    let index = usize::try_from(level - 1).unwrap_or(usize::MAX);
                    let longest = self.lengths.last().copied().unwrap_or(0);
                    self.lengths.get(index).copied().unwrap_or(longest)
                };
                // A new level is forgotten exactly after its time.
                let lengths = (level(at + ROUNDED), level(at));
                self.raised.push(lengths);
                let others = self.lengths.len().saturating_sub(1) as u64;
                let full_until = self.until.saturating_sub(others * forget_after);
                if full_until > at {
                    self.full_until = full_until;
                }
            }
        }
    }

    /// Notes a block that lasts for a time. Returns the level that it should have if it has another one.
    pub(super) fn starts(&mut self, at: Micros, lasts: Micros) -> Option<String> {
        let is_near = |(shortest, longest): &(Micros, Micros)| {
            shortest.saturating_sub(ROUNDED) <= lasts && lasts <= longest + ROUNDED
        };
        if self.forget_after.is_none() {
            let only = self.lengths.first().copied().unwrap_or(0);
            return (!is_near(&(only, only)))
                .then(|| format!("a block lasts {lasts} us, not {only}"));
        }
        if let Some(place) = self.raised.iter().position(is_near) {
            self.raised.remove(place);
            return None;
        }
        let longest = self.lengths.last().copied().unwrap_or(0);
        if is_near(&(longest, longest)) && at <= self.full_until + LATE {
            return None;
        }
        let raised: Vec<_> = self.raised.iter().map(|(_, longest)| longest.to_string()).collect();
        Some(format!(
            "a block lasts {lasts} us, but its level was raised to one of {}",
            raised.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> Levels {
        let doubling = Some(Doubling { longest: 3_000_000, forget_after: 10_000_000 });
        let (within, lasting) = (1_000_000, 1_000_000);
        let by = Blocking { strikes: 2, within, lasting, doubling, ..Blocking::CLEARED };
        Levels::new(&by)
    }

    /// Returns whether a block of so many seconds may start at a time, after levels were raised at others.
    fn may_start(raised: &[Micros], at: Micros, seconds: Micros) -> bool {
        let mut levels = levels();
        for (index, at) in raised.iter().enumerate() {
            if index > 0 {
                levels.raised.clear();
            }
            levels.changed("gcra", (1_000_000 * at, 0));
        }
        levels.starts(1_000_000 * at, 1_000_000 * seconds).is_none()
    }

    #[test]
    fn the_time_of_blocks_doubles_until_they_are_forgotten() {
        for (raised, lasts) in [
            (&[100][..], 1),
            (&[100, 101], 2),
            (&[100, 101, 103], 3),
            // The first two are forgotten at 110 and 120.
            (&[100, 101, 115], 2),
            (&[100, 101, 121], 1),
        ] {
            let last = *raised.last().unwrap_or(&0);
            for seconds in 1..=3 {
                assert_eq!(
                    may_start(raised, last, seconds),
                    seconds == lasts,
                    "{raised:?}, {seconds}"
                );
            }
        }
        assert!(!may_start(&[], 100, 1));
    }

    #[test]
    fn a_level_that_is_given_back_or_reset_counts_no_more() {
        for script in ["refund", "reset"] {
            let mut levels = levels();
            levels.changed("gcra", (100_000_000, 0));
            levels.changed(script, (101_000_000, 0));
            levels.raised.clear();
            levels.changed("gcra", (102_000_000, 0));
            assert!(levels.starts(102_000_000, 2_000_000).is_some(), "{script}");
            assert!(levels.starts(102_000_000, 1_000_000).is_none(), "{script}");
        }
    }

    /// Two levels are forgotten at 120. A refund at 104 leaves one of them, and what has drained of the other one.
    #[test]
    fn a_refund_gives_back_a_level_at_most() {
        for (forgotten_in, lasts) in [(0, 2), (6, 2), (11, 3), (99, 3)] {
            let mut levels = levels();
            (1..=2).for_each(|_| levels.changed("gcra", (100_000_000, 0)));
            levels.changed("refund", (104_000_000, 1_000_000 * forgotten_in));
            levels.raised.clear();
            levels.changed("gcra", (104_000_000, 0));
            let starts = levels.starts(104_000_000, 1_000_000 * lasts);
            assert_eq!(starts, None, "{forgotten_in}");
        }
    }

    #[test]
    fn the_longest_block_needs_no_raise_while_all_levels_are_in_use() {
        let mut levels = levels();
        (1..=4).for_each(|_| levels.changed("gcra", (100_000_000, 0)));
        levels.raised.clear();
        assert!(levels.starts(110_000_000, 2_000_000).is_some());
        assert!(levels.starts(110_000_000, 3_000_000).is_none());
        assert!(levels.starts(130_000_000, 3_000_000).is_some());
    }
}
