//! A limiter that can know only so many quotas: its end is reported before it is reached.

use std::{
    any::Any,
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{
    Cost, Decision, Error, Key, KnownQuotas, Limiter, LimiterFuture, LimiterId, MemoryLimiter,
    Policy, Quota, Receipt, Reservation, Usage,
};
use limiter_tower::plan::{Plan, Plans};

use crate::for_all;

/// A limiter that knows ten quotas at most, as one in memory knows 65,535.
struct FewQuotas {
    limiter: MemoryLimiter,
    known: Arc<Mutex<HashSet<Quota>>>,
}

fn hourly(permits: u64) -> Policy {
    Policy::gcra("default", Quota::per_hour(permits))
}

fn few_quotas() -> FewQuotas {
    let known = HashSet::from([Quota::per_hour(1)]);
    FewQuotas { limiter: MemoryLimiter::new(hourly(1)), known: Arc::new(Mutex::new(known)) }
}

impl Limiter for FewQuotas {
    fn policy(&self) -> &Policy {
        self.limiter.policy()
    }

    fn id(&self) -> LimiterId {
        self.limiter.id()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn known_quotas(&self) -> Option<KnownQuotas> {
        Some(KnownQuotas { known: self.known.lock().unwrap().len(), capacity: 10 })
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        Limiter::check_n(&self.limiter, key, cost)
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        Limiter::peek(&self.limiter, key)
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        Limiter::reserve(&self.limiter, key, cost, within)
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        Limiter::take_up_to(&self.limiter, key, most)
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        Limiter::charge(&self.limiter, key, cost)
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        Limiter::refund(&self.limiter, receipt)
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        Limiter::reset(&self.limiter, key)
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        self.known.lock().unwrap().extend(policy.limits().iter().map(|limit| *limit.quota()));
        let limiter = self.limiter.with_policy(policy)?;
        Ok(Arc::new(Self { limiter, known: Arc::clone(&self.known) }))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Limiter::sibling(&self.limiter, policy)
    }
}

/// The last quota was given without a sign, and each new customer's plan was an error from then on.
#[test]
fn the_last_fifth_of_the_quotas_is_logged_once() {
    let log = limiter_rig::log::Log::start();
    let plan = Plan::new(few_quotas());
    let mut customers = vec![plan.clone()];
    for permits in 1..=7 {
        customers.push(plan.with_policy(&hourly(permits)).unwrap());
    }
    assert_eq!(log.lines(), [""; 0]);
    for permits in [8, 9, 10, 10, 1] {
        // Plans that are made from each other share the watch.
        for customer in &customers {
            let _ = customer.with_policy(&hourly(permits)).unwrap();
        }
    }
    let expected = "WARN limiter_tower: rate limiter knows most of the quotas that it can know, and then \
                    fails for new ones: round quotas to steps, or build it with wide_states \
                    policy=\"default\" known=8 capacity=10";
    assert_eq!(log.lines(), [expected]);
}

#[test]
fn each_new_quota_sets_the_gauge_of_the_first_plan() {
    let ratio = |make: fn(Plan)| {
        let recorded = crate::metrics::record(async { make(Plan::new(few_quotas())) });
        recorded.get("ratelimit_known_quotas_ratio policy=default").map(|values| values[0])
    };
    assert_eq!(ratio(drop), None);
    let named = |plan: Plan| {
        for permits in [2, 3, 3] {
            let customer = Policy::gcra("customer", Quota::per_hour(permits));
            plan.with_policy(&customer).unwrap().with_policy(&customer).unwrap();
        }
    };
    assert_eq!(ratio(named), Some(0.3));
    let tiers = |_| {
        let plans = Plans::new(few_quotas(), [Policy::gcra("gold", Quota::per_hour(2))]).unwrap();
        plans.replace([Policy::gcra("gold", Quota::per_hour(3))]).unwrap();
    };
    assert_eq!(ratio(tiers), Some(0.3));
    let reload = |_| {
        for_all(few_quotas()).set_policy(&hourly(2)).unwrap();
    };
    assert_eq!(ratio(reload), Some(0.2));
}
