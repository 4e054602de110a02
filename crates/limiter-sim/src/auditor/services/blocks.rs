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
    pub(super) is_void: bool,
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
            is_void: false,
        }
    }

    /// Notes that nothing is known but that the key is fresh.
    pub(super) fn are_fresh(&mut self) {
        self.strikes.clear();
        self.levels.are_fresh();
        (self.blocked, self.full_until, self.is_void) = (None, 0, false);
        // Blocks that nobody could count.
        self.trips = self.trips.max(self.blocks);
        self.sent = self.sent.max(self.counted);
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
                self.levels.changed(script, at);
                None
            }
            (Part::Strikes, "reset") => {
                self.strikes.clear();
                self.full_until = at;
                None
            }
            (Part::Strikes, "refund") => {
                self.strikes.pop_back();
                None
            }
            (Part::Block, "reset" | "refund") => {
                self.blocked = None;
                None
            }
            (Part::Strikes, _) => self.struck(at),
            (Part::Block, _) => self.starts(at, lasts),
        }
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
