//! A key whose limit is used up: when to call the store for it again, and what is refused until then.

use std::time::Duration;

use limiter_core::{Cost, Decision, Timestamp, Usage};

use super::{demand::Ask, grant::Grant};
use crate::scripts::{LeaseTerms, Plan};

/// Until when the store is not asked for a key.
#[derive(Clone, Copy)]
pub(super) struct Backoff {
    /// What the store replied, to which cost, and when. It named the wait if it refused that.
    usage: Usage,
    cost: Cost,
    wait: Option<Duration>,
    received: Timestamp,
    pause: Duration,
    ends: Timestamp,
    /// How many permits there are of a lease that begins when this ends.
    ahead: u64,
}

impl Backoff {
    /// Returns the back-off after a reply that brought fewer permits than were wanted; `None` if the store has more.
    ///
    /// It lasts about an eighth of a lease, by a `jitter` between 0 and 1, so that processes ask in turn, and ends where the
    /// key is fresh, because the next window has room for all.
    pub(super) fn after(
        decision: &Decision,
        ask: Ask,
        terms: &LeaseTerms,
        (now, jitter): (Timestamp, f64),
    ) -> Option<Self> {
        let usage = decision.usage();
        let is_used_up = !decision.is_admitted() || usage.remaining() == 0;
        let pause = terms.length.mul_f64(0.1 + 0.05 * jitter);
        let fresh = now.saturating_add(usage.reset_after());
        is_used_up.then(|| Self {
            usage,
            cost: ask.cost,
            wait: decision.retry_after(),
            received: now,
            pause,
            ends: fresh.min(ask.at.saturating_add(pause)),
            ahead: 0,
        })
    }

    /// Returns the back-off until a lease begins.
    pub(super) fn until(decision: &Decision, ask: Ask, grant: &Grant, now: Timestamp) -> Self {
        Self {
            usage: decision.usage(),
            cost: ask.cost,
            wait: Some(grant.begins.saturating_since(now)),
            received: now,
            pause: Duration::ZERO,
            ends: grant.begins,
            ahead: grant.permits,
        }
    }

    /// Returns whether a lease begins when this ends.
    pub(super) const fn is_until_a_lease(&self) -> bool {
        self.ahead > 0
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        now >= self.ends
    }

    /// Returns the refusal of a cost until the store would not refuse it and is called again. `None` if the store has to
    /// be asked: it may have permits for this cost, or its wait is not known, and no lease begins before.
    pub(super) fn refusal(&self, plan: &Plan, cost: Cost, now: Timestamp) -> Option<Decision> {
        if self.has_ended(now) || cost.get() <= self.usage.remaining() {
            return None;
        }
        let at_begin = self.is_until_a_lease().then_some(Duration::ZERO);
        Some(self.refused(self.wait(plan, cost).or(at_begin)?, now))
    }

    /// Returns the refusal of a cost for which the store was asked together with others. `None` if it may have permits
    /// for this cost.
    ///
    /// It is refused even if the back-off has ended by the time of the reply: the caller has waited for long enough. If
    /// its wait is not known, another one may follow.
    pub(super) fn refusal_of_asked(&self, plan: &Plan, cost: Cost) -> Option<Decision> {
        let is_refused = cost.get() > self.usage.remaining();
        let wait = || self.wait(plan, cost).unwrap_or(self.pause);
        is_refused.then(|| self.refused(wait(), self.received))
    }

    fn wait(&self, plan: &Plan, cost: Cost) -> Option<Duration> {
        let known = self.wait.filter(|_| cost == self.cost || cost.get() <= self.ahead);
        // That of an admission is not the next one's.
        let computed = || plan.wait_after(&self.usage, cost);
        known.filter(|wait| !wait.is_zero()).or_else(computed).or(known)
    }

    fn refused(&self, wait: Duration, now: Timestamp) -> Decision {
        let wait = self.received.saturating_add(wait).max(self.ends).saturating_since(now);
        let age = now.saturating_since(self.received);
        let reset_after = self.usage.reset_after().saturating_sub(age);
        let usage = Usage::new(self.usage.burst(), self.usage.remaining(), reset_after);
        Decision::refused(usage, Some(wait))
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::{Policy, Quota};

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000 * millis)
    }

    fn plan(policy: &Policy) -> Plan {
        Plan::new(policy, policy.name(), true)
    }

    fn after(plan: &Plan, cost: u64, decision: Decision) -> Option<Backoff> {
        let ask = Ask { cost: Cost::of(cost), wanted: 100, at: at(0) };
        Backoff::after(&decision, ask, &plan.lease.unwrap(), (at(10), 0.0))
    }

    #[test]
    fn a_cost_that_may_fit_is_asked_for() {
        // A permit in a millisecond, and leases of 250 ms.
        let plan = plan(&Policy::gcra("test", Quota::per_second(1_000)));
        let usage = Usage::new(1_000, 20, Duration::from_millis(980));
        assert!(after(&plan, 1, Decision::admitted(usage)).is_none(), "there are more");
        let refused = Decision::refused(usage, Some(Duration::from_millis(30)));
        let backoff = after(&plan, 50, refused).unwrap();
        assert!(backoff.refusal(&plan, Cost::of(20), at(11)).is_none());
        let wait = |cost, millis| {
            let refusal = backoff.refusal(&plan, Cost::of(cost), at(millis)).unwrap();
            assert_eq!(refusal.remaining(), 20);
            refusal.retry_after().unwrap()
        };
        // Of costs between them, the wait is computed from the usage; and no caller returns before the store is called.
        assert_eq!(wait(50, 11), Duration::from_millis(29));
        assert_eq!(wait(60, 11), Duration::from_millis(39));
        assert_eq!(wait(25, 11), Duration::from_millis(14));
        assert!(backoff.refusal(&plan, Cost::of(50), at(25)).is_none(), "it has ended");
    }

    #[test]
    fn who_was_asked_for_is_refused_even_after_the_back_off() {
        let plan = plan(&Policy::gcra("test", Quota::per_second(1_000)));
        let usage = Usage::new(1_000, 0, Duration::from_millis(1_000));
        let ask = Ask { cost: Cost::ONE, wanted: 100, at: at(0) };
        let terms = &plan.lease.unwrap();
        let backoff =
            Backoff::after(&Decision::admitted(usage), ask, terms, (at(60), 0.0)).unwrap();
        assert!(backoff.refusal(&plan, Cost::of(3), at(60)).is_none(), "it has ended");
        let refusal = backoff.refusal_of_asked(&plan, Cost::of(3)).unwrap();
        assert_eq!(refusal.retry_after(), Some(Duration::from_millis(3)));
    }

    #[test]
    fn a_counter_that_is_full_is_asked_for_other_costs() {
        let policy = Policy::parse("test", "1000/s by sliding-counter").unwrap();
        let plan = plan(&policy);
        let usage = Usage::new(1_000, 0, Duration::from_millis(900));
        let refused = Decision::refused(usage, Some(Duration::from_millis(3)));
        let backoff = after(&plan, 1, refused).unwrap();
        assert!(backoff.refusal(&plan, Cost::of(1), at(11)).is_some());
        assert!(backoff.refusal(&plan, Cost::of(5), at(11)).is_none(), "its wait is not known");
        let refusal = backoff.refusal_of_asked(&plan, Cost::of(5)).unwrap();
        assert_eq!(refusal.retry_after(), Some(Duration::from_millis(25)), "a tenth of a lease");
    }

    /// An admission has no wait, so that of the next permit follows from what it has left. The refusal once named the end of the
    /// back-off, and the retry was refused: found by PROPTEST_RNG_SEED=8, `law_3_a_retry_is_admitted`.
    #[test]
    fn behind_the_last_permit_of_a_window_its_end_is_named() {
        let plan = plan(&Policy::parse("test", "1000/s by aligned-window").unwrap());
        let usage = Usage::new(1_000, 0, Duration::from_millis(441));
        let backoff = after(&plan, 1, Decision::admitted(usage)).unwrap();
        let refusal = backoff.refusal(&plan, Cost::ONE, at(11)).unwrap();
        assert_eq!(refusal.retry_after(), Some(Duration::from_millis(440)));
    }
}
