//! What one of several processes may give out by itself.

use core::num::NonZeroU32;

use super::{Kind, Limit, Policy};
use crate::algorithm::Single;

impl Policy {
    /// Returns the policy with every quota divided by a number of processes: what each of them may
    /// give out by itself while they can't ask the store that they share.
    ///
    /// Permits, bursts and the depths of queues are rounded down, of all limits and tiers.
    ///
    /// - A limit with fewer permits than there are processes gives one permit in several windows, as
    ///   many as it takes to stay within the share, but in no more than [`Quota::MAX_WINDOW`].
    /// - A burst is at least one permit, and recovers within [`Quota::MAX_RECOVERY`].
    /// - A queue may come to have no depth: it then gives out its burst, and promises nothing.
    /// - A rate of more than 16,000,000 a second that a limiter in memory can't hold within 0.1 % is
    ///   lowered to the next one of a whole number of sixteenths of a nanosecond a permit.
    ///
    /// Names and order of limits and tiers stay, so that [`Usage::limit_index`] means the same limit
    /// as before. By division a shorter window may come to have as many permits as a longer one, or
    /// to be the longer one: [`Policy::several`] would refuse that, and it does no harm.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use limiter_core::Policy;
    ///
    /// let three = NonZeroU32::new(3).ok_or("zero")?;
    /// let rows = [("100/min burst 20", "33/min burst 6"), ("2/s", "1/2s"), ("1/h", "1/3h")];
    /// for (whole, share) in rows {
    ///     let share = Policy::parse("api", share)?;
    ///     assert_eq!(Policy::parse("api", whole)?.shared_among(three), share);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Quota::MAX_WINDOW`]: crate::Quota::MAX_WINDOW
    /// [`Quota::MAX_RECOVERY`]: crate::Quota::MAX_RECOVERY
    /// [`Usage::limit_index`]: crate::Usage::limit_index
    #[must_use]
    pub fn shared_among(&self, processes: NonZeroU32) -> Self {
        let limits = self.limits().iter().map(|limit| limit.shared_among(processes));
        let tiers = self.tiers().iter().map(|tier| tier.shared_among(processes));
        Self::of(self.name(), limits.collect(), tiers.collect())
    }
}

impl Limit {
    fn shared_among(&self, processes: NonZeroU32) -> Self {
        let kind = match self.kind {
            Kind::LeakyQueue { depth } => {
                Kind::LeakyQueue { depth: depth / u64::from(processes.get()) }
            }
            other => other,
        };
        let quota = self.quota.shared_among(processes);
        // Fewer permits and whole numbers of windows suit the windows' algorithms all the better:
        // only a fast rate may not.
        let is_held = Single::new(kind, &quota).is_ok();
        let quota = if is_held { quota } else { quota.in_whole_ticks() };
        Self { name: self.name.clone(), kind, quota }
    }
}
