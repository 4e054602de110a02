//! Policies that replace another one, such as a part of its permits, and what of its keys' states stays.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::{num::NonZeroU32, time::Duration};

use super::{Policy, identity::identity};
use crate::{Algorithm, Error, Limit, Quota};

impl Policy {
    /// Returns the text that identifies the states of each limit, in the order of the limits: `gcra.60s`, or
    /// `hour/fixed-window.3600s` of a limit that has a name of its own.
    ///
    /// It has the limit's name unless that is the policy's, the algorithm, the span, of sub-windows the length of a slot, and
    /// the horizon unless that is the default. By GCRA, the span is the time in which a burst recovers; by windows and logs
    /// it is the time for which permits count. Policies whose limits have the same texts share their states; under any
    /// other, a key begins fresh.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let free = Policy::gcra("free", Quota::per_minute(60));
    /// let premium = Policy::gcra("premium", Quota::per_minute(600));
    /// let bursty = Policy::gcra("bursty", Quota::per_minute(60).with_burst(120));
    /// assert_eq!(free.identities(), ["gcra.60s"]);
    /// assert_eq!(premium.identities(), free.identities());
    /// assert_eq!(bursty.identities(), ["gcra.120s"]);
    /// ```
    #[must_use]
    pub fn identities(&self) -> &[String] {
        &self.0.identities
    }

    /// Returns the same texts in a limiter that was built with a policy of this name: where a limit of several has that
    /// name, it is left out of the text, whatever the name of this policy is, such as that of a tier.
    #[doc(hidden)]
    #[must_use]
    pub fn identities_in(&self, limiter: &str) -> Cow<'_, [String]> {
        match self.limits() {
            limits if limits.len() > 1 && self.name() != limiter => {
                limits.iter().map(|limit| identity(limit, limiter)).collect()
            }
            _ => self.identities().into(),
        }
    }

    /// Returns the names of those limits of `next` under which all keys begin fresh, if it replaces this policy: limits of
    /// another span, algorithm, horizon or name.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let policy = Policy::gcra("api", Quota::per_minute(60));
    /// assert!(policy.limits_reset_by(&Policy::gcra("api", Quota::per_minute(600))).is_empty());
    /// assert_eq!(policy.limits_reset_by(&Policy::gcra("api", Quota::per_hour(3_600))), ["api"]);
    /// ```
    #[must_use]
    pub fn limits_reset_by<'a>(&self, next: &'a Self) -> Vec<&'a str> {
        let limits = next.limits().iter().zip(next.identities());
        let fresh = limits.filter(|(_, identity)| !self.identities().contains(identity));
        fresh.map(|(limit, _)| limit.name()).collect()
    }

    /// Returns the policy with so many percent of its permits, bursts and depths, for a controller that adapts to the load.
    /// Keys keep what they have used: by GCRA the fraction of the burst, by other algorithms the number of permits.
    ///
    /// The numbers of a limit keep their proportions, so that its span stays the same: they are rounded down together, to
    /// the next whole numbers of the same proportions, and not below the smallest ones. Half of `7/min burst 14` is
    /// `3/min burst 6`.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let policy = Policy::gcra("api", Quota::per_second(100).with_burst(200));
    /// let reduced = policy.scaled(25)?;
    /// assert_eq!(*reduced.limits()[0].quota(), Quota::per_second(25).with_burst(50));
    /// assert_eq!(reduced.identities(), policy.identities());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if a scaled quota is out of its range: a rate above
    /// [`Quota::MAX_RATE`](crate::Quota::MAX_RATE), more permits than the algorithm can count, or a rate that can't be served
    /// with the limit's horizon: see [`Policy::new`].
    pub fn scaled(&self, percent: u32) -> Result<Self, Error> {
        self.with_quotas(|limit| limit.scaled(percent))
    }

    /// Returns the policy with every quota divided by the number of `processes`, rounded down: what one of them may admit
    /// while the store that they share fails.
    ///
    /// - A limit with fewer permits than processes gives one permit in several windows, up to
    ///   [`Quota::MAX_WINDOW`].
    /// - A burst is at least one permit, and recovers within [`Quota::MAX_RECOVERY`].
    /// - A queue may have no depth left: it then admits its burst, and promises nothing.
    ///
    /// Names, order and horizons of the limits stay, so that a decision's limit index means the same limit.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use limiter_core::{Policy, Quota};
    ///
    /// let policy = Policy::gcra("api", Quota::per_minute(100).with_burst(20));
    /// let share = policy.share_among(NonZeroU32::new(4).unwrap())?;
    /// assert_eq!(*share.limits()[0].quota(), Quota::per_minute(25).with_burst(5));
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if the rounded quota can't be served with the limit's
    /// horizon: see [`Policy::new`].
    pub fn share_among(&self, processes: NonZeroU32) -> Result<Self, Error> {
        let number = u64::from(processes.get());
        self.with_quotas(|limit| {
            let quota = divide(limit.quota(), number)?;
            Ok((algorithm(limit, &quota, number), quota))
        })
    }
}

fn divide(quota: &Quota, number: u64) -> Result<Quota, Error> {
    let longest = Quota::MAX_WINDOW.as_nanos() / quota.window().as_nanos();
    let windows = u128::from(number.div_ceil(quota.permits())).min(longest);
    let windows = u32::try_from(windows).unwrap_or(u32::MAX);
    let permits = (quota.permits() / number).max(1);
    let window = quota.window().saturating_mul(windows);
    let burst = (quota.burst() / number).max(1).min(within_recovery(permits, window));
    Quota::new(permits, window)?.try_with_burst(burst)
}

fn algorithm(limit: &Limit, share: &Quota, number: u64) -> Algorithm {
    match limit.algorithm() {
        Algorithm::LeakyQueue { depth } => {
            let most = within_recovery(share.permits(), share.window());
            Algorithm::LeakyQueue { depth: (depth / number).min(most) }
        }
        Algorithm::Gcra
        | Algorithm::FixedWindow
        | Algorithm::AlignedWindow
        | Algorithm::SlidingCounter
        | Algorithm::SubWindows(_)
        | Algorithm::SlidingLog => limit.algorithm(),
    }
}

/// Returns how many permits recover within [`Quota::MAX_RECOVERY`].
fn within_recovery(permits: u64, window: Duration) -> u64 {
    let most = u128::from(permits) * Quota::MAX_RECOVERY.as_nanos() / window.as_nanos();
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::{borrow::ToOwned, string::ToString, vec::Vec};

    use super::*;
    use crate::ErrorKind;

    fn among(policy: &str, processes: u32) -> Policy {
        let policy = Policy::parse("api", policy).unwrap();
        policy.share_among(NonZeroU32::new(processes).unwrap()).unwrap()
    }

    #[test]
    fn permits_bursts_and_depths_are_divided_and_rounded_down() {
        for (whole, processes, part) in [
            ("100/min burst 20", 1, "100/min burst 20"),
            ("100/min burst 20", 3, "33/min burst 6"),
            ("2/s", 3, "1/2s burst 1"),
            ("1/h", 3, "1/3h"),
            ("10/day", 1_000_000, "1/366d burst 1"),
            ("10/s by leaky-queue depth 7", 3, "3/s by leaky-queue depth 2"),
            ("10/s by sub-windows 10 slots", 3, "3/s by sub-windows 10 slots"),
            ("10/s by fixed-window", 4, "2/s by fixed-window"),
        ] {
            let part = Policy::parse("api", part).unwrap();
            let found = among(whole, processes);
            assert_eq!(found.limits()[0].quota(), part.limits()[0].quota(), "{whole}");
            assert_eq!(found.limits()[0].algorithm(), part.limits()[0].algorithm(), "{whole}");
            assert_eq!(found.families(), Policy::parse("api", whole).unwrap().families());
        }
    }

    #[test]
    fn a_depth_stays_within_the_longest_recovery() {
        // 18,000 at 10 a day is 1,800 days; a third of both rounds the rate down by more.
        let policy = among("10/day by leaky-queue depth 18000", 3);
        assert_eq!(policy.limits()[0].algorithm(), Algorithm::LeakyQueue { depth: 5_490 });
    }

    /// The horizon was replaced by the default one.
    #[test]
    fn a_limit_keeps_its_horizon() {
        let hour = among("10/s horizon 1h", 3).limits()[0].horizon();
        assert_eq!(hour, Duration::from_secs(3_600));
    }

    /// By `33333/s`, a permit takes 30.0003 microseconds: not a whole number, as such a long horizon needs.
    #[test]
    fn a_share_that_cannot_be_served_is_an_error() {
        let policy = Policy::parse("api", "100000/s horizon 20d").unwrap();
        let error = policy.share_among(NonZeroU32::new(3).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuota);
        assert!(policy.share_among(NonZeroU32::new(4).unwrap()).is_ok());
    }

    /// Processes can have the same share of two limits.
    #[test]
    fn limits_may_become_the_same() {
        let limits = ["1/s", "60/min"].map(|text| Policy::parse(text, text).unwrap());
        let policy = Policy::all_of("api", limits).unwrap();
        let part = policy.share_among(NonZeroU32::new(60).unwrap()).unwrap();
        let quotas = part.limits().iter().map(|limit| limit.quota().to_string());
        assert_eq!(quotas.collect::<Vec<_>>(), ["1/min", "1/min"]);
    }

    #[test]
    fn several_limits_keep_their_order() {
        let limits = ["5/s", "100/min by sliding-log", "101/h"];
        let limits = limits.iter().map(|text| Policy::parse(text, text).unwrap());
        let policy = Policy::all_of("api", limits).unwrap();
        let part = policy.share_among(NonZeroU32::new(50).unwrap()).unwrap();
        let names = |policy: &Policy| {
            policy.limits().iter().map(|limit| limit.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&part), names(&policy));
        assert_eq!(part.families(), policy.families());
    }
}
