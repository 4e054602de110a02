//! The present, as states and as waiters count time.

use crate::Timestamp;

/// Reads the clock of a limiter, as its states count time.
pub(crate) type Now<'a> = &'a dyn Fn() -> Timestamp;

/// The present by the two times of a limiter.
#[derive(Clone, Copy, Default)]
pub(crate) struct Present {
    /// As the states count it: Unix time with aligned windows.
    pub(crate) now: Timestamp,
    /// By [`Clock::now`](crate::Clock::now), by which waiters sleep and have their deadlines, because
    /// Unix time may step.
    pub(crate) monotonic: Timestamp,
}

impl Present {
    /// Returns when a moment of the states' time comes by [`Clock::now`](crate::Clock::now): at once if
    /// it is past.
    pub(crate) fn by_the_clock(self, moment: Timestamp) -> Timestamp {
        self.monotonic.saturating_add(moment.saturating_since(self.now))
    }
}
