//! Sub-windows and the exact log: what `ledger.lua` is given, and what its numbers mean. Its twin is
//! the algorithm of `limiter-core`.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Usage,
    algorithm::{Ledger as Core, Slots},
};

use super::{
    Functions,
    single::{count, in_micros, micros, signed, too_many},
};

/// Dated entries and their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    algorithm: Core,
    loose: bool,
    /// Into how many slots the permits are spread, or 0.
    paced: u32,
    /// The most entries that there are without reservations.
    entries: u64,
}

impl Ledger {
    pub(super) const FUNCTIONS: Functions = Functions {
        name: "ledger",
        quota: &["limit", "slot", "span", "loose", "offset", "paced", "slots"],
        text: include_str!("ledger.lua"),
    };

    /// The most entries of one of several limits, or with tiers: all are read and written at once.
    pub(super) const MAX_PACKED: u64 = 128;

    /// The most permits that are paced, so that their product with a number of slots is exact.
    const MAX_PACED: u64 = 1 << 39;

    pub(super) fn sub_windows(quota: &Quota, slots: Slots) -> Result<Self, Error> {
        if slots.is_paced() && quota.permits() > Self::MAX_PACED {
            return Err(too_many(quota, Self::MAX_PACED));
        }
        Ok(Self {
            algorithm: Core::sub_windows(quota, slots)?,
            loose: slots.is_loose(),
            paced: if slots.is_paced() { slots.number() } else { 0 },
            entries: u64::from(slots.number()),
        })
    }

    pub(super) fn sliding_log(quota: &Quota) -> Result<Self, Error> {
        let algorithm = Core::sliding_log(quota)?;
        Ok(Self { algorithm, loose: true, paced: 0, entries: quota.permits() })
    }

    /// Returns whether all entries may be read and written at once.
    pub(super) const fn can_be_packed(&self) -> bool {
        self.entries <= Self::MAX_PACKED
    }

    pub(super) fn quota(&self) -> [i64; 7] {
        // In a log, a slot is a moment.
        let slot = in_micros(self.algorithm.slot()).max(1);
        let permits = signed(self.algorithm.limit());
        let (paced, slots) = if self.paced == 0 { (0, 0) } else { (permits, self.paced.into()) };
        let span = in_micros(self.algorithm.span());
        [permits, slot, span, self.loose.into(), super::EPOCH % slot, paced, slots]
    }

    pub(super) const fn usage(&self, [reset, remaining, _]: [i64; 3]) -> Usage {
        Usage::new(self.algorithm.largest(), count(remaining), micros(reset))
    }

    pub(super) const fn wait(&self, [_, _, wait]: [i64; 3], _: Cost) -> Option<Duration> {
        if wait < 0 { None } else { Some(micros(wait)) }
    }

    pub(super) const fn mark(&self, [_, _, taken_at]: [i64; 3], now: i64) -> [i64; 2] {
        [now + taken_at, 0]
    }
}
