//! A rate of requests, with a burst.

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota};

/// A rate of requests, with a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace(Quota);

/// The unit of a rate: a billionth of a permit a second.
pub(crate) const PER_SECOND: u64 = 1_000_000_000;

const NANOS: u64 = 1_000_000_000;

/// The part of a window's permits that may be sent at once.
const RESERVE: u64 = 20;

impl Pace {
    /// Returns the pace of a policy's first limit.
    pub(crate) fn of_policy(policy: &Policy) -> Self {
        policy.limits().first().map_or(Self(Quota::per_second(1)), |limit| Self(*limit.quota()))
    }

    /// Returns the pace for a server that admits `permits` in `window`, or nothing if no limiter serves it.
    ///
    /// A server that announces a burst refills it at the quota's rate. A quarter of it is the burst of
    /// the pace, because requests that were sent at even intervals do not arrive at even ones. Any other
    /// server may count windows, in which the burst and the rate have to fit together.
    pub(crate) fn announced(permits: u64, window: Duration, burst: Option<u64>) -> Option<Self> {
        let burst = burst.filter(|burst| *burst < permits);
        let (permits, burst) = match burst {
            Some(burst) => (permits, burst / 4),
            None => (permits - permits / RESERVE, permits / RESERVE),
        };
        // A window of years is too long for a quota. One permit's part of it may not be.
        Self::new(permits, window, burst).or_else(|| Self::rounded(permits, window, burst))
    }

    /// Returns the pace at which `permits` last for `time`.
    pub(crate) fn of_remainder(permits: u64, time: Duration) -> Option<Self> {
        // A power of two, so that not each permit changes it.
        let burst = (permits / RESERVE).checked_ilog2().map_or(1, |log| 1 << log);
        Self::rounded(permits, time, burst)
    }

    /// Returns the pace of `permits` in `time`, rounded down to two digits: so many in a second or in ten, or one in a time
    /// that is rounded up, to at most [`Quota::MAX_WINDOW`].
    ///
    /// There are few such paces, so that processes which compute nearly the same one agree, and that
    /// small changes of a server's figures change nothing.
    fn rounded(permits: u64, time: Duration, burst: u64) -> Option<Self> {
        let whole = |number: u128| u64::try_from(number).ok();
        let (permits, nanos) = (u128::from(permits), time.as_nanos());
        let longest = Quota::MAX_WINDOW;
        let interval = whole(nanos.div_ceil(permits.max(1)).min(longest.as_nanos()))?;
        if interval > NANOS {
            let digit = second_digit(interval);
            let interval = Duration::from_nanos(interval.div_ceil(digit) * digit);
            return Self::new(1, interval.min(longest), burst);
        }
        let in_ten_seconds = whole(permits * 10 * u128::from(NANOS) / nanos.max(1))?;
        let digit = second_digit(in_ten_seconds);
        let permits = in_ten_seconds / digit * digit;
        match permits % 10 {
            0 => Self::new(permits / 10, Duration::from_secs(1), burst),
            _ => Self::new(permits, Duration::from_secs(10), burst),
        }
    }

    fn new(permits: u64, window: Duration, burst: u64) -> Option<Self> {
        let quota = Quota::new(permits, window).ok()?;
        // A large burst of a slow pace takes longer to recover than a quota allows.
        let burst = quota.try_with_burst(burst.max(1)).or_else(|_| quota.try_with_burst(1));
        Some(Self(burst.ok()?))
    }

    /// Returns this pace at a lower `rate`, with as much less of the burst.
    pub(crate) fn slowed_to(self, rate: u64) -> Option<Self> {
        let burst = u128::from(self.burst()) * u128::from(rate) / u128::from(self.rate().max(1));
        let burst = u64::try_from(burst).map_or(self.burst(), |it| it.min(self.burst()));
        Self::rounded(rate, Duration::from_secs(PER_SECOND), burst)
    }

    pub(crate) fn rate(self) -> u64 {
        rate(self.0.permits(), self.0.window())
    }

    pub(crate) const fn burst(self) -> u64 {
        self.0.burst()
    }

    /// Returns the time between two permits.
    pub(crate) fn interval(self) -> Duration {
        let (nanos, permits) = (self.0.window().as_nanos(), u128::from(self.0.permits()));
        Duration::from_nanos(u64::try_from(nanos.div_ceil(permits)).unwrap_or(u64::MAX))
    }

    /// Returns the slower one, with the smaller burst.
    pub(crate) fn slower(self, other: Self) -> Self {
        let slower = if other.rate() < self.rate() { other } else { self };
        // A smaller burst recovers sooner, so it is as valid.
        let quota = slower.0.try_with_burst(self.burst().min(other.burst()));
        Self(quota.unwrap_or(slower.0))
    }

    /// Returns the pace, or one permit in `time` if that is faster.
    pub(crate) fn at_least_one_in(self, time: Duration) -> Self {
        match Self::new(1, time, 1) {
            Some(slowest) if slowest.rate() > self.rate() => slowest,
            _ => self,
        }
    }

    pub(crate) const fn quota(self) -> Quota {
        self.0
    }

    /// Returns the pace as a policy.
    pub(crate) fn policy(self, name: &str) -> Result<Policy, Error> {
        Policy::new(name, Algorithm::Gcra, self.0)
    }
}

/// Returns the rate of `permits` in `time`, in billionths of a permit a second.
fn rate(permits: u64, time: Duration) -> u64 {
    let nanos = u128::from(permits) * u128::from(PER_SECOND) * u128::from(NANOS);
    u64::try_from(nanos / time.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// Returns what the second digit of a number counts: 10 of 321.
fn second_digit(number: u64) -> u64 {
    10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computed_pace_has_two_digits_and_is_never_faster() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let cases = [
            (335, Duration::from_secs(10), "33/s"),
            (15, Duration::from_secs(10), "15/10s"),
            (1_234_567, Duration::from_secs(1), "1200000/s"),
            (50, HOUR, "1/72s"),
            (7, HOUR, "1/520s"),
            (1, HOUR, "1/h"),
        ];
        for (permits, time, expected) in cases {
            let pace = Pace::of_remainder(permits, time).map(|it| it.quota().with_burst(1));
            let text = pace.map(|quota| quota.to_string()).unwrap_or_default();
            assert!(text.starts_with(expected), "{permits} in {time:?}: {text}");
        }
    }
}
