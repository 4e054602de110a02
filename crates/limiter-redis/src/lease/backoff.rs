//! A key whose limit is used up: when the store is asked for it again, and what is refused until then.

use std::time::Duration;

use limiter_core::{Cost, Decision, Timestamp, Usage};

use super::demand::Ask;
use crate::scripts::{LeaseTerms, Plan};

/// Until when the store is not asked for a key.
#[derive(Clone, Copy)]
pub(super) struct Backoff {
    /// What the store replied, to which cost, and when. It named the wait if it refused that.
    usage: Usage,
    cost: Cost,
    wait: Option<Duration>,
    received: Timestamp,
    ends: Timestamp,
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
        let pause = ask.at.saturating_add(terms.length.mul_f64(0.1 + 0.05 * jitter));
        is_used_up.then(|| Self {
            usage,
            cost: ask.cost,
            wait: decision.retry_after(),
            received: now,
            ends: now.saturating_add(usage.reset_after()).min(pause),
        })
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        now >= self.ends
    }

    /// Returns the refusal of a cost until the store would not refuse it and is asked again. `None` if the store has to
    /// be asked: it may have permits for this cost, or its wait is not known.
    pub(super) fn refusal(&self, plan: &Plan, cost: Cost, now: Timestamp) -> Option<Decision> {
        if self.has_ended(now) || cost.get() <= self.usage.remaining() {
            return None;
        }
        let wait = match self.wait {
            Some(wait) if cost == self.cost => wait,
            _ => plan.wait_after(&self.usage, cost)?,
        };
        let wait = self.received.saturating_add(wait).max(self.ends).saturating_since(now);
        let age = now.saturating_since(self.received);
        let reset_after = self.usage.reset_after().saturating_sub(age);
        let usage = Usage::new(self.usage.burst(), self.usage.remaining(), reset_after);
        Some(Decision::refused(usage, Some(wait)))
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::{Policy, Quota};

    use super::*;
    use crate::scripts::Scripts;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000 * millis)
    }

    fn plan(policy: &Policy) -> Plan {
        Plan::new(Scripts::shared(), policy, true)
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
        // Of costs between them, the wait is computed from the usage; and no caller returns before the store is asked.
        assert_eq!(wait(50, 11), Duration::from_millis(29));
        assert_eq!(wait(60, 11), Duration::from_millis(39));
        assert_eq!(wait(25, 11), Duration::from_millis(14));
        assert!(backoff.refusal(&plan, Cost::of(50), at(25)).is_none(), "it has ended");
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
    }
}
