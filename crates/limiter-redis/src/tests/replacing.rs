//! A policy that is replaced while checks go on.

use std::{num::NonZeroU32, sync::mpsc, thread, time::Duration};

use limiter_core::{Policy, Quota};

use super::noscript::Forgetful;
use crate::{FailurePolicy, RedisLimiter};

/// Far more than it takes to look at a policy.
const SOON: Duration = Duration::from_secs(10);

fn policy(limit: u64) -> Policy {
    Policy::gcra("test", Quota::per_day(limit).unwrap()).unwrap()
}

fn limit(policy: &Policy) -> u64 {
    policy.limits()[0].quota().permits()
}

/// Once checks waited until all states in memory were rewritten.
#[test]
fn checks_go_on_while_the_limiter_in_memory_is_replaced() {
    let in_memory = FailurePolicy::Local { processes: NonZeroU32::MIN };
    let limiter = RedisLimiter::new(Forgetful::default(), policy(10)).unwrap();
    let limiter = limiter.with_failure_policy(in_memory).unwrap();
    let (shared, local) = (&limiter.shared, limiter.shared.local.as_ref().unwrap());
    thread::scope(|scope| {
        // Someone who is long over the limiter in memory keeps it from being replaced.
        let ((leave, left), (enter, entered)) = (mpsc::channel::<()>(), mpsc::channel());
        scope.spawn(move || {
            local.ask(0, |_| {
                enter.send(()).unwrap();
                let _ = left.recv_timeout(SOON);
            })
        });
        entered.recv().unwrap();
        let replacing = scope.spawn(|| shared.replace(policy(20)));
        while !shared.is_being_replaced() {}

        let (tell, told) = mpsc::channel();
        scope.spawn(move || tell.send(limit(&shared.policy(0))));
        assert_eq!(told.recv_timeout(SOON / 2), Ok(10));
        assert!(!replacing.is_finished());
        leave.send(()).unwrap();
        replacing.join().unwrap().unwrap();
        assert_eq!(limit(&shared.policy(0)), 20);
    });
}
