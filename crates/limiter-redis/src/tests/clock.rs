//! A server whose clock steps by an hour, forth and back, for every algorithm: what a change of the
//! time by hand does, or a failover to a server whose clock is wrong.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota, Timestamp};
use limiter_test::{bounds::cases::policies, subject::Subject};

use super::store::{InRedis, Store};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_clock_that_steps_an_hour_back_gives_nothing_and_holds_no_key_for_longer_than_a_recovery() {
    let store = Store::new();
    for (name, policy) in policies() {
        let mut limiter = store.limiter(policy.clone());
        let now = Timestamp::ZERO.saturating_add(2 * HOUR);
        let recovery = recovery(&policy);
        for step in 0..3 {
            let what = format!("{name} {policy:?}, step {step}");
            // By the server's word an hour has passed, and all has recovered.
            let ahead = now.saturating_add(HOUR);
            assert!(taken(&mut limiter, ahead, recovery) > 0, "{what}");

            let refusal = limiter.decide(now, "key", Cost::ONE);
            assert!(!refusal.is_admitted(), "{what}");
            let wait = refusal.retry_after().unwrap();
            assert!(wait <= recovery, "{what}: {wait:?}");
            assert_eq!(taken(&mut limiter, now, Duration::ZERO), 0, "{what}");
            let after = now.saturating_add(wait);
            assert!(limiter.decide(after, "key", Cost::ONE).is_admitted(), "{what}");
        }
    }
}

/// Takes what can be taken, as soon as it can be, and returns how much it was.
fn taken(limiter: &mut InRedis, from: Timestamp, within: Duration) -> usize {
    let (mut now, mut count) = (from, 0);
    while now <= from.saturating_add(within) {
        let decision = limiter.decide(now, "key", Cost::ONE);
        count += usize::from(decision.is_admitted());
        now = now.saturating_add(decision.retry_after().unwrap());
    }
    count
}

/// The longest time in which any of these algorithms forgets what was taken.
fn recovery(policy: &Policy) -> Duration {
    let of_limit = |quota: &Quota| {
        let windows = quota.burst().div_ceil(quota.permits()) + 1;
        quota.window() * u32::try_from(windows).unwrap()
    };
    policy.limits().iter().map(|limit| of_limit(limit.quota())).max().unwrap()
}
