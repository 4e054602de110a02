//! The strikes and blocks of a key, as the server has executed them.

use std::collections::VecDeque;

use super::levels::{Levels, ROUNDED};
use crate::{service_plan::Blocking, vocabulary::Micros};

/// The strikes and blocks of a key.
#[derive(Debug)]
pub(super) struct Blocks {
    by: Blocking,
    levels: Levels,
    /// When the strikes were counted since they were reset.
    strikes: VecDeque<Micros>,
    /// How many strikes services have sent, and how many were counted.
    pub(super) sent: u64,
    counted: u64,
    /// How many strikes were the last one before a block, and how many blocks there were.
    trips: u64,
    pub(super) blocks: u64,
    /// From when until when the key is blocked, and until when its strikes are full.
    pub(super) blocked: Option<(Micros, Micros)>,
    pub(super) full_until: Micros,
    /// How often strikes and levels may still be cleared: strikes once for each success and each block, levels once for each
    /// success.
    clears: Clears,
    /// How often a success has cleared strikes.
    pub(super) cleared: u64,
    /// Whether the key was reset by hand.
    pub(super) is_reset: bool,
    pub(super) is_void: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clears {
    strikes: u64,
    levels: u64,
}

/// A state of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Strikes,
    Levels,
    Block,
}

impl Blocks {
    pub(super) fn new(by: Blocking) -> Self {
        Self {
            levels: Levels::new(&by),
            by,
            strikes: VecDeque::new(),
            sent: 0,
            counted: 0,
            trips: 0,
            blocks: 0,
            blocked: None,
            full_until: 0,
            clears: Clears::default(),
            cleared: 0,
            is_reset: false,
            is_void: false,
        }
    }

    /// Notes that nothing is known but that the key is fresh.
    pub(super) fn are_fresh(&mut self) {
        self.strikes.clear();
        self.levels.are_fresh();
        (self.blocked, self.full_until, self.is_void, self.is_reset) = (None, 0, false, false);
        // Blocks that nobody could count.
        self.trips = self.trips.max(self.blocks);
        self.sent = self.sent.max(self.counted);
    }

    /// Notes that a service sends a success.
    pub(super) const fn succeeds(&mut self) {
        self.clears.strikes += 1;
        self.clears.levels += 1;
    }

    /// Notes that a call has changed a state. A block lasts for so long from now on.
    pub(super) fn changed(
        &mut self,
        part: Part,
        script: &str,
        (at, lasts): (Micros, Micros),
    ) -> Option<String> {
        match (part, script) {
            (Part::Levels, _) => {
                self.levels.changed(script, (at, lasts));
                self.may_clear(part, script)
            }
            (Part::Strikes, "reset") => {
                self.strikes.clear();
                self.full_until = at;
                let is_blocked = self.blocked.is_some_and(|(_, until)| at <= until);
                self.cleared += u64::from(!is_blocked && !self.is_reset);
                self.may_clear(part, script)
            }
            (Part::Strikes, "refund") => {
                self.strikes.pop_back();
                None
            }
            (Part::Block, "reset" | "refund") => {
                self.blocked = None;
                (!self.is_reset).then(|| format!("a block is lifted at {at} us that nobody lifts"))
            }
            (Part::Strikes, _) => self.struck(at),
            (Part::Block, _) => self.starts(at, lasts),
        }
    }

    /// Returns a message if strikes or levels are cleared, and neither a success nor a block has done so.
    fn may_clear(&mut self, part: Part, script: &str) -> Option<String> {
        if script != "reset" || self.is_reset {
            return None;
        }
        let (what, left) = match part {
            Part::Levels => ("levels", &mut self.clears.levels),
            _ => ("strikes", &mut self.clears.strikes),
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        (!is_left).then(|| {
            format!("the {what} of a key are cleared more often than successes and blocks do")
        })
    }

    fn struck(&mut self, at: Micros) -> Option<String> {
        self.counted += 1;
        self.strikes.push_back(at);
        while self.strikes.front().is_some_and(|first| first + self.by.within + ROUNDED < at) {
            self.strikes.pop_front();
        }
        if self.strikes.len() as u64 >= self.by.strikes {
            self.trips += 1;
            let oldest = self.strikes.front().copied().unwrap_or(at);
            self.full_until = oldest + self.by.within;
        }
        if self.counted > self.sent {
            return Some(format!("{} strikes are counted, of {} sent", self.counted, self.sent));
        }
        let (_, until) =
            self.blocked.filter(|(from, until)| *from < at && at + ROUNDED < *until)?;
        Some(format!("a strike is counted at {at} us while the key is blocked until {until} us"))
    }

    fn starts(&mut self, at: Micros, lasts: Micros) -> Option<String> {
        self.blocks += 1;
        self.clears.strikes += 1;
        let before = self.blocked.replace((at, at + lasts));
        if let Some(message) = self.levels.starts(at, lasts) {
            return Some(message);
        }
        if self.blocks > self.trips {
            let Self { blocks, trips, .. } = self;
            return Some(format!(
                "there are {blocks} blocks, but only {trips} times the strikes for one"
            ));
        }
        let (_, until) = before.filter(|(_, until)| at + ROUNDED < *until)?;
        Some(format!("a block starts at {at} us while the key is blocked until {until} us"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRUCK: (Part, &str) = (Part::Strikes, "list");
    const CLEARED: (Part, &str) = (Part::Strikes, "reset");
    const BLOCKED: (Part, &str) = (Part::Block, "gcra");

    /// Returns the message after the last of these changes, a millisecond after each other. None before has one.
    fn message(blocks: &mut Blocks, changes: &[(Part, &str)]) -> Option<String> {
        let mut message = None;
        for (at, (part, script)) in (1..).zip(changes) {
            assert_eq!(message, None);
            message = blocks.changed(*part, script, (1_000 * at, 500_000));
        }
        message
    }

    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(Blocking::CLEARED);
        blocks.sent = 100;
        blocks
    }

    #[test]
    fn strikes_that_are_cleared_start_no_block() {
        for (is_cleared, is_found) in [(false, false), (true, true)] {
            let mut blocks = blocks();
            blocks.succeeds();
            let clears: &[_] = if is_cleared { &[CLEARED] } else { &[] };
            let changes = [&[STRUCK, STRUCK][..], clears, &[STRUCK, BLOCKED]].concat();
            assert_eq!(message(&mut blocks, &changes).is_some(), is_found);
            assert_eq!(blocks.cleared, u64::from(is_cleared));
        }
    }

    #[test]
    fn only_successes_and_blocks_clear_strikes() {
        assert!(message(&mut blocks(), &[STRUCK, CLEARED]).is_some());
        let after_block = [STRUCK, STRUCK, STRUCK, BLOCKED, CLEARED, CLEARED];
        assert!(message(&mut blocks(), &after_block).is_some());
        let mut blocks = blocks();
        blocks.succeeds();
        assert!(
            message(&mut blocks, &[&after_block[..], &[(Part::Levels, "reset")]].concat())
                .is_none()
        );
        assert!(message(&mut blocks, &[(Part::Levels, "reset")]).is_some());
    }

    #[test]
    fn nothing_but_a_reset_lifts_a_block() {
        let changes = [STRUCK, STRUCK, STRUCK, BLOCKED, (Part::Block, "reset")];
        assert!(message(&mut blocks(), &changes).is_some());
        let mut blocks = blocks();
        blocks.is_reset = true;
        assert!(message(&mut blocks, &changes).is_none());
    }
}
