//! The model of the sliding log.

use super::{PARTS, Quota, Turns};

/// Which entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRule {
    /// The newest of those that are not later than now, up to the largest limit that counts them, and all
    /// later ones.
    NewestAndLater,
    /// The newest, up to the largest limit. Wrong: reserved entries may be refunded, and then those that
    /// were dropped for them would count.
    Newest,
    /// Those within the window of the quota that has charged last. Wrong: it forgets what a longer window
    /// still counts.
    OwnWindow,
}

/// A key under sliding logs.
#[derive(Clone, Debug)]
pub struct Log {
    rule: LogRule,
    /// Moments, permits, and the number of the charge.
    entries: Vec<(u64, u64, usize)>,
    /// The quotas that count the entries, and the moment of the newest charge of each.
    writers: Vec<(Quota, u64)>,
    charges: usize,
}

impl Log {
    /// Returns a key without charges.
    #[must_use]
    pub const fn new(rule: LogRule) -> Self {
        Self { rule, entries: Vec::new(), writers: Vec::new(), charges: 0 }
    }

    /// Returns whether an entry of this moment counts at `now` for any quota.
    fn is_counted(&self, at: u64, now: u64) -> bool {
        self.writers.iter().any(|(quota, newest)| at.min(*newest) + quota.length > now)
    }

    fn counted(&self, quota: Quota, now: u64) -> u64 {
        let counts = |at| at + quota.length > now && self.is_counted(at, now);
        self.entries.iter().filter(|(at, ..)| counts(*at)).map(|(_, permits, _)| permits).sum()
    }

    fn drop_uncounted(&mut self, now: u64) {
        let entries = std::mem::take(&mut self.entries);
        self.entries = entries.into_iter().filter(|(at, ..)| self.is_counted(*at, now)).collect();
        self.writers.retain(|(quota, newest)| newest + quota.length > now);
        let largest = self.writers.iter().map(|(quota, _)| quota.limit).max().unwrap_or(0);
        let is_newest = |at: u64| self.rule == LogRule::Newest || at <= now;
        while let Some((at, oldest, _)) = self.entries.first().copied() {
            let past = self.entries.iter().filter(|(at, ..)| is_newest(*at));
            let past: u64 = past.map(|(_, permits, _)| permits).sum();
            if !is_newest(at) || past - oldest < largest {
                break;
            }
            self.entries.remove(0);
        }
    }
}

impl Turns for Log {
    fn take(&mut self, now: u64, quota: Quota, cost: u64, within: u64) -> Option<u64> {
        self.drop_uncounted(now);
        let first = self.entries.last().map_or(now, |(at, ..)| now.max(*at));
        let at =
            (first..=now + within).find(|at| self.counted(quota, *at) + cost <= quota.limit)?;
        if self.rule == LogRule::OwnWindow {
            self.writers.clear();
        }
        self.writers.retain(|(other, _)| *other != quota);
        self.writers.push((quota, at));
        self.entries.push((at, cost, self.charges));
        self.charges += 1;
        Some(at * PARTS)
    }

    fn refund(&mut self, now: u64, charge: usize, permits: u64) -> u64 {
        self.drop_uncounted(now);
        let Some((_, left, _)) = self.entries.iter_mut().find(|(.., number)| *number == charge)
        else {
            return 0;
        };
        let back = permits.min(*left);
        *left -= back;
        self.entries.retain(|(_, permits, _)| *permits > 0);
        back
    }
}
