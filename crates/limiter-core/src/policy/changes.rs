//! How a policy replaces another one, and what of its keys' states stays.

use alloc::{borrow::Cow, string::String, vec::Vec};

use super::{Policy, identity::identity};
use crate::Error;

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
    /// [`Quota::MAX_RATE`](crate::Quota::MAX_RATE), or more permits
    /// than the algorithm can count.
    pub fn scaled(&self, percent: u32) -> Result<Self, Error> {
        self.with_quotas(|limit| limit.scaled(percent))
    }
}
