//! A rate of requests, with a burst.

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota};

/// A rate of requests, with a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace(Quota);

/// The unit of a rate: a millionth of a permit a second.
pub(crate) const PER_SECOND: u64 = 1_000_000;

/// The window of a rate that was computed. Its permits in it are the rate.
const COMPUTED_WINDOW: Duration = Duration::from_secs(PER_SECOND);

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
        let quota = Quota::new(permits, window).ok()?;
        Some(Self(quota.try_with_burst(burst.max(1)).ok()?))
    }

    /// Returns the pace at which `permits` last for `time`.
    pub(crate) fn of_remainder(permits: u64, time: Duration) -> Option<Self> {
        // A power of two, so that not each permit changes it.
        let burst = (permits / RESERVE).checked_ilog2().map_or(1, |log| 1 << log);
        Self::computed(rate(permits, time), burst)
    }

    /// Returns a pace of `rate`, rounded down by up to an eighth.
    ///
    /// There are few such rates, so that processes which compute nearly the same one agree, and that
    /// small changes of a server's figures change nothing.
    pub(crate) fn computed(rate: u64, burst: u64) -> Option<Self> {
        // Its first four bits count.
        let rest = rate.checked_ilog2()?.saturating_sub(3);
        let quota = Quota::new(rate >> rest << rest, COMPUTED_WINDOW).ok()?;
        Some(Self(quota.try_with_burst(burst.max(1)).ok()?))
    }

    pub(crate) fn rate(self) -> u64 {
        rate(self.0.permits(), self.0.window())
    }

    pub(crate) const fn burst(self) -> u64 {
        self.0.burst()
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
        match Self::computed(rate(1, time), 1) {
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

/// Returns the rate of `permits` in `time`, in millionths of a permit a second.
fn rate(permits: u64, time: Duration) -> u64 {
    let nanos = u128::from(permits) * u128::from(PER_SECOND) * 1_000_000_000;
    u64::try_from(nanos / time.as_nanos().max(1)).unwrap_or(u64::MAX)
}
