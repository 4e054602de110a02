//! Whether a limiter's counters agree with what its callers saw.

use limiter_redis::Counters;

/// What the callers of one limiter in one process saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations that were begun, and those that have ended for their callers.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Decisions by the store, a lease or a cached denial.
    pub(crate) decided: u64,
    /// Decisions and peeks by a failure policy.
    pub(crate) fell_back: u64,
    /// Operations that the limiter may have counted as decided although their callers saw no decision: they failed, fell
    /// back, were left, or were part of a list that was refused.
    pub(crate) uncertain: u64,
}

impl Tally {
    /// Returns what does not agree.
    pub(crate) fn disagrees(&self, counters: &Counters) -> Option<String> {
        let Counters { admitted, refused, cached, .. } = counters;
        let Counters { fallback_allow, fallback_deny, fallback_local, .. } = counters;
        let open = self.begun - self.ended;
        let decided = admitted + refused + cached;
        let fell_back = fallback_allow + fallback_deny + fallback_local;
        let uncertain = self.uncertain + open;
        let of = |name, counted: u64, seen: u64| {
            let agrees = (seen..=seen + uncertain).contains(&counted);
            (!agrees).then(|| {
                format!(
                    "the limiter has counted {counted} {name}, but its callers saw {seen}, and {uncertain} may have \
                     been either: {counters:?}"
                )
            })
        };
        of("decisions", decided, self.decided)
            .or_else(|| of("decisions by its failure policy", fell_back, self.fell_back))
    }
}
