//! Sub-windows and the exact log: what `ledger.lua` is given, and what its numbers mean. Its twin is
//! the algorithm of `limiter-core`.

use std::time::Duration;

use limiter_core::{
    Cost, Error, Quota, Usage,
    algorithm::{Ledger as Core, Slots},
};

use super::{
    Functions,
    single::{count, doubles, in_micros, micros, signed, too_many},
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
        form: "ddddddd",
        text: include_str!("ledger.lua"),
    };

    /// The most entries of one of several limits, or with tiers: all are read and written at once.
    pub(super) const MAX_PACKED: u64 = 128;

    /// The most permits, so that an entry's count takes five bytes at most, and that their product with
    /// a number of slots is exact.
    const MAX_PERMITS: u64 = 1 << 39;

    pub(super) fn sub_windows(quota: &Quota, slots: Slots) -> Result<Self, Error> {
        if quota.permits() > Self::MAX_PERMITS {
            return Err(too_many(quota, Self::MAX_PERMITS));
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

    fn quota(&self) -> [i64; 7] {
        // In a log, a slot is a moment.
        let slot = in_micros(self.algorithm.slot()).max(1);
        let permits = signed(self.algorithm.limit());
        let (paced, slots) = if self.paced == 0 { (0, 0) } else { (permits, self.paced.into()) };
        let span = in_micros(self.algorithm.span());
        [permits, slot, span, self.loose.into(), super::EPOCH % slot, paced, slots]
    }

    /// Returns the quota as it is packed.
    pub(super) fn packed(&self) -> Vec<u8> {
        doubles(&self.quota())
    }

    /// Returns the short way of a check, unless the window is paced.
    pub(super) fn short(&self) -> Option<&'static str> {
        (self.paced == 0).then_some(include_str!("ledger_check.lua"))
    }

    /// Returns the numbers of an admission that came in one.
    pub(super) fn unpacked(&self, all: i64) -> [i64; 3] {
        let base = signed(self.algorithm.limit()).saturating_add(1);
        [all / base, all % base, 0]
    }

    pub(super) const fn usage(&self, [reset, remaining, _]: [i64; 3]) -> Usage {
        Usage::new(self.algorithm.largest(), count(remaining), micros(reset))
    }

    pub(super) const fn wait(&self, [_, _, wait]: [i64; 3], _: Cost) -> Option<Duration> {
        if wait < 0 { None } else { Some(micros(wait)) }
    }

    pub(super) const fn mark(&self, [_, _, taken_at]: [i64; 3], now: i64) -> [i64; 2] {
        [now.saturating_add(taken_at), 0]
    }
}

/// The twin: the algorithm of `limiter-core`, over the texts that the script writes.
#[cfg(test)]
mod twin {
    use limiter_core::{
        Cost,
        algorithm::{Algorithm, Charge, Entries, Ledger as Core},
    };

    use crate::scripts::{
        EPOCH,
        twin::{Refund, Twin, cost_of, moment, split_colon, split_digits, wait_of},
    };

    /// A quota, and entries. Its times are those of Unix, as slots have to be.
    pub(super) struct Ledger {
        algorithm: Core,
        limit: i128,
        slot: i128,
        span: i128,
        loose: bool,
        offset: i128,
        now: i128,
        log: Entries,
        /// When the last permits were taken, from now, or how long they wait.
        told: i128,
    }

    impl super::Ledger {
        pub(crate) fn twin(&self) -> Box<dyn Twin> {
            let [limit, slot, span, _, offset, ..] = self.quota().map(i128::from);
            Box::new(Ledger {
                algorithm: self.algorithm,
                limit,
                slot,
                span,
                loose: self.loose,
                offset,
                now: 0,
                log: Entries::default(),
                told: 0,
            })
        }
    }

    fn unix(at: i128) -> limiter_core::Timestamp {
        moment(at + i128::from(EPOCH))
    }

    fn entry_of(text: &str) -> Option<(i128, i128)> {
        split_digits(text, 4).or_else(|| split_colon(text))
    }

    fn text_of(at: i128, count: i128) -> String {
        if count <= 9_999 { format!("{at}{count:04}") } else { format!("{at}:{count}") }
    }

    impl Ledger {
        fn slot_of(&self, at: i128) -> i128 {
            at - (at + self.offset) % self.slot
        }

        fn entries(&self) -> impl DoubleEndedIterator<Item = (i128, i128)> {
            let entries = self.log.iter().map(|(at, count)| {
                (i128::from(at.as_nanos() / 1_000) - i128::from(EPOCH), i128::from(count))
            });
            entries.collect::<Vec<_>>().into_iter()
        }
    }

    impl Twin for Ledger {
        fn read(&mut self, text: Option<&[u8]>, now: i128, latest: i128) -> bool {
            (self.now, self.told) = (now, 0);
            // What is no text is no entry either.
            let text = text.map(|text| String::from_utf8_lossy(text).replace(' ', ""));
            let texts = text.filter(|text| *text != "-").unwrap_or_default();
            let texts = texts.split(',').filter(|entry| !entry.is_empty());
            let Some(found) = texts.map(entry_of).collect::<Option<Vec<_>>>() else {
                let limit = u64::try_from(self.limit).unwrap();
                self.log = [(unix(now), limit)].into_iter().collect();
                return true;
            };
            let as_found = found.iter().map(|&(at, count)| (unix(at), count.try_into().unwrap()));
            self.log = as_found.collect();
            self.algorithm.advance(&mut self.log, unix(now), unix(latest));
            let most = if self.limit <= 16_777_215 { 16_777_215 } else { (1 << 40) - 1 };
            self.log = self.log.iter().map(|(at, count)| (at, count.min(most))).collect();
            let latest = if self.loose { latest + self.slot - 1 } else { latest };
            let is_later = |at: i128| self.slot_of(at) > latest;
            found.iter().any(|(at, _)| is_later(*at))
        }

        fn wait(&mut self, cost: i128, from: i128) -> Option<i128> {
            let wait = self.algorithm.wait(&self.log, unix(from), cost_of(cost));
            let wait = wait.map(wait_of);
            self.told = wait.unwrap_or(-1);
            wait
        }

        fn charge(&mut self, cost: i128, at: i128) {
            self.algorithm.charge(&mut self.log, unix(at), cost_of(cost));
            let (taken_at, _) = self.entries().next_back().unwrap();
            self.told = taken_at - self.now;
        }

        fn owe(&mut self, cost: i128, at: i128) {
            self.algorithm.owe(&mut self.log, unix(at), cost_of(cost));
        }

        fn refund(&mut self, refund: &Refund) -> bool {
            // A charge of a fresh state at that moment has this mark.
            let charged_at = unix(refund.mark);
            let mark = self.algorithm.charge(&mut Entries::default(), charged_at, Cost::ONE);
            let (cost, at) = (cost_of(refund.cost), unix(refund.at));
            let charge = Charge { at, cost, mark, moved: refund.has_moved };
            let permits = u64::try_from(refund.permits).unwrap();
            self.algorithm.refund(&mut self.log, unix(self.now), &charge, permits)
        }

        fn length(&self, text: &[u8]) -> usize {
            text.iter().position(|byte| *byte == b' ').map_or(text.len(), |space| space + 1)
        }

        fn write(&self) -> (Vec<u8>, i128) {
            let texts: Vec<_> = self.entries().map(|(at, count)| text_of(at, count)).collect();
            let last = self.entries().next_back();
            let till = last.map_or(self.now, |(at, _)| self.slot_of(at) + self.span);
            let text = if texts.is_empty() { "-".to_owned() } else { texts.join(",") };
            ((text + " ").into_bytes(), till)
        }

        fn numbers(&self) -> Vec<i128> {
            let usage = self.algorithm.usage(&self.log, unix(self.now));
            vec![wait_of(usage.reset_after()), usage.remaining().into(), self.told]
        }
    }
}
