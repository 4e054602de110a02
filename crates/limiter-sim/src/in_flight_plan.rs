//! Requests in flight: what is drawn of them.
//!
//! In a world with requests in flight, the callers of a process enter the keys of limiters of requests in flight, and hold
//! their permits for random times. All else is as in other worlds: the processes, the network, the servers and the faults.

use std::num::NonZeroU32;

use crate::{
    fault::{Effect, Fault},
    random::Random,
    trips::Trips,
    vocabulary::Micros,
    wrong::Wrong,
};

/// What separates the numbers of a world with requests in flight from those of the same seed without.
pub(crate) const STREAM: u64 = 0x5e72_71ce_5000_0002;

/// What the requests in flight of a run are.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) limiters: Vec<Kind>,
    pub(crate) processes: NonZeroU32,
    pub(crate) longest_pause: Micros,
    /// How many of a thousand requests are held for longer than the expiry.
    pub(crate) long: u64,
    pub(crate) without: Vec<Fault>,
    pub(crate) wrong: Option<Wrong>,
}

/// A limiter that each process has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) limit: u32,
    pub(crate) expiry: Micros,
    /// How many processes share the store, if each decides by its share while the store can't.
    pub(crate) share: Option<NonZeroU32>,
}

/// The names of the limiters.
const NAMES: [&str; 2] = ["uploads", "exports"];

impl Plan {
    /// Draws the requests in flight of a seed, whose fleet has so many processes.
    pub(crate) fn new(
        random: &mut Random,
        processes: NonZeroU32,
        wrong: Option<Wrong>,
    ) -> (Self, Trips) {
        let trips = match random.below(10) {
            _ if wrong == Some(Wrong::DeadlinesFromReplies) => Trips::TIGHT,
            0 => Trips::FAR,
            1 => Trips::TIGHT,
            _ => Trips::NEAR,
        };
        // A deadline is a third of the expiry at most.
        let least = (3 * trips.deadline).max(300_000);
        let mut limiters = Vec::new();
        for name in NAMES {
            let mut share = random.pick(&[None, Some(processes)]).copied().flatten();
            let mut limit = u32::try_from(random.between(1, 6)).unwrap_or(1);
            let mut expiry = random.between(least, 2_000_000);
            if let Some(wrong) = wrong.filter(|it| it.is_of_in_flight()) {
                (share, limit) = (None, limit.div_ceil(2));
                if wrong == Wrong::ForgetsShares {
                    share = Some(processes);
                }
                expiry = match wrong {
                    Wrong::LeavesEarly => expiry,
                    // A key lasts a second longer than its permits.
                    Wrong::RenewalsForgetExpiry => random.between(1_500_000, 2_000_000),
                    _ => random.between(least, 2 * least),
                };
            }
            limiters.push(Kind { name, limit, expiry, share });
        }
        let longest_pause = match wrong {
            // The server has another deadline than the holder for a few milliseconds.
            Some(Wrong::DeadlinesFromReplies) => 5_000,
            _ => random.between(10_000, 200_000),
        };
        let long = match wrong {
            Some(Wrong::RenewalsForgetExpiry) => 1_000,
            Some(Wrong::RenewsWithoutRoom | Wrong::DeadlinesFromReplies) => 900,
            _ => random.between(20, 300),
        };
        let without = Fault::that(&[Effect::OfLimiters, Effect::TakesTurns]).collect();
        (Self { limiters, processes, longest_pause, long, without, wrong }, trips)
    }

    /// Returns the longest expiry.
    pub(crate) fn longest_expiry(&self) -> Micros {
        self.limiters.iter().map(|it| it.expiry).max().unwrap_or(0)
    }

    /// Returns for how long a request holds its permit at most.
    pub(crate) fn longest_hold(&self) -> Micros {
        5 * self.longest_expiry()
    }

    /// Returns whether work goes on for a while after its permit was given back.
    pub(crate) fn leaves_early(&self) -> bool {
        self.wrong == Some(Wrong::LeavesEarly)
    }

    /// Returns whether callers reset keys.
    pub(crate) fn resets(&self) -> bool {
        self.wrong.is_none_or(|wrong| wrong == Wrong::IgnoresResets)
    }

    /// Returns whether permits of a share are given back at once, while the work goes on.
    pub(crate) fn forgets_shares(&self) -> bool {
        self.wrong == Some(Wrong::ForgetsShares)
    }

    /// Returns whether strict work goes on after its permit was lost, as if nobody had looked at the clock.
    pub(crate) fn ignores_deadlines(&self) -> bool {
        self.wrong == Some(Wrong::IgnoresDeadlines)
    }
}

impl Kind {
    /// Returns the limit that a request passes: that of the limiter, or now and then another one.
    pub(crate) fn limit_of_call(&self, random: &mut Random) -> u32 {
        match random.below(40) {
            0 => 0,
            1..5 => self.limit - 1,
            5..9 => self.limit + 1,
            9 => self.limit + 3,
            _ => self.limit,
        }
    }

    /// Returns for how long a request holds its permit.
    pub(crate) fn hold(&self, random: &mut Random, long: u64) -> Micros {
        let expiry = self.expiry;
        match random.below(1_000) {
            place if place < long => random.between(expiry, 5 * expiry),
            place if place < 600 => random.below(expiry / 4),
            _ => random.between(expiry / 4, expiry),
        }
    }
}
