//! One limit by any of the algorithms.

use std::time::Duration;

use limiter_core::{Cost, Error, ErrorKind, Kind, Limit, Quota, Usage};

use super::{
    Functions, Part, fixed_window::FixedWindow, gcra::Gcra, ledger::Ledger,
    sliding_counter::SlidingCounter,
};

/// One limit by any of the algorithms, at the server's resolution: microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Single {
    Gcra(Gcra),
    FixedWindow(FixedWindow),
    SlidingCounter(SlidingCounter),
    Ledger(Ledger),
}

/// The largest number of permits, so that a sum of two is exact in a double.
const MAX_PERMITS: u64 = 1 << 52;

macro_rules! with {
    ($single:expr, |$algorithm:ident| $call:expr) => {
        match $single {
            Single::Gcra($algorithm) => $call,
            Single::FixedWindow($algorithm) => $call,
            Single::SlidingCounter($algorithm) => $call,
            Single::Ledger($algorithm) => $call,
        }
    };
}

impl Single {
    pub(crate) fn new(limit: &Limit) -> Result<Self, Error> {
        let quota = limit.quota();
        if quota.permits().max(quota.burst()) > MAX_PERMITS {
            return Err(too_many(quota, MAX_PERMITS));
        }
        match limit.kind() {
            Kind::Gcra | Kind::TokenBucket | Kind::LeakyBucket => Gcra::new(quota).map(Self::Gcra),
            Kind::LeakyQueue { depth } => Gcra::queue(quota, depth).map(Self::Gcra),
            Kind::FixedWindow(start) => Ok(Self::FixedWindow(FixedWindow::new(quota, start))),
            Kind::SlidingCounter => SlidingCounter::new(quota).map(Self::SlidingCounter),
            Kind::SubWindows(slots) => Ledger::sub_windows(quota, slots).map(Self::Ledger),
            Kind::SlidingLog => Ledger::sliding_log(quota).map(Self::Ledger),
            other => Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("there is no script for a limit by {other}"),
            )),
        }
    }

    pub(crate) const fn is_ledger(&self) -> bool {
        matches!(self, Self::Ledger(_))
    }

    /// Returns what stands in the script.
    pub(crate) const fn functions(&self) -> Functions {
        match self {
            Self::Gcra(_) => Gcra::FUNCTIONS,
            Self::FixedWindow(_) => FixedWindow::FUNCTIONS,
            Self::SlidingCounter(_) => SlidingCounter::FUNCTIONS,
            Self::Ledger(_) => Ledger::FUNCTIONS,
        }
    }

    /// Returns the short way of a check.
    pub(crate) fn short(&self) -> Option<&'static str> {
        match self {
            Self::Gcra(gcra) => Some(gcra.short()),
            Self::FixedWindow(_) => Some(FixedWindow::SHORT),
            Self::SlidingCounter(_) => Some(SlidingCounter::SHORT),
            Self::Ledger(ledger) => ledger.short(),
        }
    }

    /// Returns what the limit is in the short way of several.
    pub(crate) const fn part(&self) -> Option<Part> {
        match self {
            Self::Gcra(gcra) => Some(gcra.part()),
            Self::FixedWindow(_) => Some(FixedWindow::PART),
            Self::SlidingCounter(_) => Some(SlidingCounter::PART),
            Self::Ledger(_) => None,
        }
    }

    /// Returns the quota as the functions are given it, for a limit that is alone at its key or not.
    pub(crate) fn packed(&self, is_alone: bool) -> Vec<u8> {
        match self {
            Self::Gcra(gcra) => gcra.packed(is_alone),
            Self::FixedWindow(window) => window.packed(is_alone),
            Self::SlidingCounter(counter) => counter.packed(),
            Self::Ledger(ledger) => ledger.packed(),
        }
    }

    /// Returns how many numbers the script replies.
    pub(crate) const fn numbers(&self) -> usize {
        match self {
            Self::Gcra(_) => 1,
            Self::FixedWindow(_) => 2,
            Self::SlidingCounter(_) | Self::Ledger(_) => 3,
        }
    }

    /// Returns the numbers of a reply of the short way that is all of them in one, `None` if it is not.
    pub(crate) fn unpacked(&self, reply: &[i64]) -> Option<Vec<i64>> {
        let limit = match self {
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingCounter(counter) => counter.limit(),
            // The last, when the permits were taken, is for receipts alone.
            Self::Ledger(ledger) => match reply {
                &[all] if all > 0 => return Some(ledger.unpacked(all).to_vec()),
                _ => return None,
            },
            Self::Gcra(_) => return None,
        };
        let &[all] = reply else { return None };
        let base = signed(limit).saturating_add(1);
        let (mut numbers, mut rest) = (vec![0; self.numbers()], all);
        for number in numbers.iter_mut().skip(1).rev() {
            (*number, rest) = ((rest % base).saturating_abs(), rest / base);
        }
        *numbers.first_mut()? = rest;
        Some(numbers)
    }

    /// Returns the usage that the script's numbers tell.
    pub(crate) fn usage(&self, numbers: &[i64]) -> Usage {
        with!(self, |algorithm| algorithm.usage(whole(numbers)))
    }

    /// Returns how long `cost`, which was refused, has to wait, `None` for ever.
    pub(crate) fn wait(&self, numbers: &[i64], cost: Cost) -> Option<Duration> {
        with!(self, |algorithm| algorithm.wait(whole(numbers), cost))
    }

    /// Returns where a charge stands that left the numbers at `now`.
    pub(crate) fn mark(&self, numbers: &[i64], now: i64) -> [i64; 2] {
        with!(self, |algorithm| algorithm.mark(whole(numbers), now))
    }

    #[cfg(test)]
    pub(crate) fn twin(&self, is_alone: bool) -> Box<dyn super::twin::Twin> {
        match self {
            Self::Gcra(gcra) => gcra.twin(is_alone),
            Self::FixedWindow(window) => window.twin(is_alone),
            Self::SlidingCounter(counter) => counter.twin(),
            Self::Ledger(ledger) => ledger.twin(),
        }
    }

    /// Returns the longest delay for which permits may be reserved.
    pub(crate) const fn longest_delay(&self) -> Duration {
        match self {
            Self::Gcra(gcra) => gcra.longest_delay(),
            _ => Duration::MAX,
        }
    }
}

/// Returns the first numbers of a limit, zeros where there are fewer. The first carries the sign of
/// the decision.
fn whole(numbers: &[i64]) -> [i64; 3] {
    let number = |index| numbers.get(index).copied().unwrap_or_default();
    [number(0).saturating_abs(), number(1), number(2)]
}

/// Returns the error of a quota with more permits than the script can count.
pub(super) fn too_many(quota: &Quota, most: u64) -> Error {
    Error::new(
        ErrorKind::InvalidQuota,
        format!("a quota of {quota}: a server's scripts count at most {most} permits that way"),
    )
}

/// Returns a number that is not negative.
pub(super) const fn count(number: i64) -> u64 {
    if number < 0 { 0 } else { number.unsigned_abs() }
}

/// Returns a time in whole microseconds.
pub(super) const fn micros(number: i64) -> Duration {
    Duration::from_micros(count(number))
}

/// Returns a window, or a part of one, as the scripts count it.
pub(super) fn in_micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns how many permits there are, at most [`MAX_PERMITS`].
pub(super) fn signed(permits: u64) -> i64 {
    i64::try_from(permits).unwrap_or(i64::MAX)
}

/// Returns numbers as scripts unpack them. None is larger than 2^53, so none is rounded.
pub(super) fn doubles(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}
