//! The clock of the servers.

use crate::vocabulary::Micros;

/// When the simulation begins by the server's clock: in microseconds of Unix time.
const EPOCH: i64 = 1_767_225_600_000_000;

/// The servers' clock. It steps and slews; the time that has passed does not step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    since: Micros,
    passed: Micros,
    offset: i64,
    ppm: i64,
}

impl ServerClock {
    pub(crate) const fn new() -> Self {
        Self { since: 0, passed: 0, offset: EPOCH, ppm: 0 }
    }

    /// Returns how much time has passed by this clock, without its steps.
    pub(crate) const fn passed(&self, now: Micros) -> Micros {
        let micros = (now - self.since) as u128 * (1_000_000_i64 + self.ppm).unsigned_abs() as u128;
        #[expect(clippy::cast_possible_truncation, reason = "simulations last hours")]
        let micros = (micros / 1_000_000) as u64;
        self.passed + micros
    }

    pub(super) fn unix_micros(&self, now: Micros) -> i64 {
        self.offset.saturating_add_unsigned(self.passed(now))
    }

    /// Moves the clock forward or back.
    pub(crate) const fn step(&mut self, micros: i64) {
        self.offset += micros;
    }

    /// Lets the clock run faster by so many parts per million.
    pub(crate) const fn slew(&mut self, now: Micros, ppm: i64) {
        (self.passed, self.since) = (self.passed(now), now);
        self.ppm = ppm;
    }
}
