//! What a policy serves and what it refuses, for all stores alike.

use std::{mem::discriminant, time::Duration};

use limiter_core::{Algorithm, Cost, Error, ErrorKind, Limit, Policy, Quota, Slots, Timestamp};
use limiter_test::{
    bounds::cases,
    policies::{any_single, any_singles_alike},
    subject::{Bare, InMemory, Subject},
    traffic::contenders,
};
use proptest::{
    prelude::*,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

/// A new algorithm once compiled with two edits, and failed at run time in one store.
#[test]
fn every_algorithm_is_read_printed_and_enforced() {
    let rows = [
        ("gcra", "5/s"),
        ("gcra", "5/s by leaky-queue depth 3"),
        ("fixed-window", "5/s by fixed-window"),
        ("aligned-window", "5/s by aligned-window"),
        ("sliding-counter", "5/s by sliding-counter"),
        ("sub-windows", "5/s by sub-windows 4 slots"),
        ("sliding-log", "5/s by sliding-log"),
    ];
    let algorithms: Vec<_> = Algorithm::one_of_each().collect();
    assert_eq!(algorithms.len(), rows.len(), "an algorithm without a row");
    for (algorithm, (family, text)) in algorithms.into_iter().zip(rows) {
        let policy = Policy::new("test", algorithm, quota("5/s")).unwrap();
        assert_eq!(policy, Policy::parse("test", text).unwrap());
        assert_eq!(policy.limits()[0].to_string(), text);
        assert_eq!((algorithm.family(), policy.families().as_str()), (family, family));
        let (mut bare, mut limiter) = (Bare::new(policy.clone()), InMemory::new(policy.clone()));
        assert_eq!((bare.policy(), limiter.policy()), (policy.clone(), policy));
        let five = Cost::of(5);
        assert!(bare.decide(Timestamp::ZERO, "key", five).is_admitted(), "{text}");
        assert!(limiter.decide(Timestamp::ZERO, "key", five).is_admitted(), "{text}");
        assert!(!bare.decide(Timestamp::ZERO, "key", Cost::ONE).is_admitted(), "{text}");
        assert!(!limiter.decide(Timestamp::ZERO, "key", Cost::ONE).is_admitted(), "{text}");
    }
}

/// A law is shown for the algorithms that are drawn, a bound for those that are listed, and figures and pictures for those
/// that are compared.
#[test]
fn laws_bounds_and_figures_are_shown_for_every_algorithm() {
    let mut runner = TestRunner::deterministic();
    let drawn = (0..500).map(|_| any_single().new_tree(&mut runner).unwrap().current());
    let drawn: Vec<Policy> = drawn.collect();
    let listed: Vec<Policy> = cases::policies().into_iter().map(|(_, policy)| policy).collect();
    let compared: Vec<Policy> = contenders(10, 10).into_iter().map(|it| it.policy).collect();
    for algorithm in Algorithm::one_of_each() {
        let is_of = |policy: &Policy| {
            discriminant(&policy.limits()[0].algorithm()) == discriminant(&algorithm)
        };
        assert!(drawn.iter().any(is_of), "{algorithm} is never drawn");
        assert!(listed.iter().any(is_of), "{algorithm} is not listed");
        assert!(compared.iter().any(is_of), "{algorithm} is not compared");
    }
}

#[test]
fn a_horizon_is_a_number_of_the_policy() {
    let minute = Duration::from_secs(60);
    let rows = [
        ("10/s", minute),
        ("1/s burst 100", Duration::from_secs(100)),
        ("10/h by fixed-window", Duration::from_secs(3_600)),
        ("10/s by sliding-log", minute),
        ("10/min by sub-windows 6 slots loose", minute),
        ("10/min by sub-windows 6 slots", Duration::from_secs(70)),
        ("10/s by leaky-queue depth 5", Duration::from_millis(500)),
    ];
    for (text, horizon) in rows {
        assert_eq!(Policy::parse("test", text).unwrap().limits()[0].horizon(), horizon, "{text}");
    }
    let policy = Policy::parse("test", "10/s").unwrap();
    let longer = policy.clone().with_horizon(5 * minute).unwrap();
    assert_eq!(longer.limits()[0].horizon(), 5 * minute);
    let queue = Policy::parse("test", "10/s by leaky-queue depth 5").unwrap();
    assert_eq!(queue.with_horizon(minute).unwrap_err().kind(), ErrorKind::InvalidSetting);
}

/// The limit was checked with its default horizon, which is 8 days, before the given one was set.
#[test]
fn a_limit_is_checked_with_the_horizon_that_is_given() {
    let text = "3000000000/8d horizon 1s";
    assert_eq!(Policy::parse("test", text).unwrap().limits()[0].to_string(), text);
    for too_far in ["3000000000/8d", "3000000000/8d horizon 3d"] {
        let error = Policy::parse("test", too_far).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuota, "{too_far}: {error}");
    }
    // A permit takes 5 us, and of 3 % of them no whole number.
    let week = Policy::parse("test", "120960000000/7d").unwrap();
    assert_eq!(week.scaled(3).unwrap_err().kind(), ErrorKind::InvalidQuota);
}

fn share_of(
    limits: &[&str],
    quota: impl Fn(&Limit) -> (Algorithm, Quota),
) -> Result<Policy, Error> {
    let named = |(index, text): (usize, &&str)| Policy::parse(&index.to_string(), text).unwrap();
    let policy = Policy::all_of("test", limits.iter().enumerate().map(named)).unwrap();
    policy.with_quotas(|limit| Ok(quota(limit)))
}

/// `with_quotas` let two paced limits pass, of which one refused what the other one's wait had promised.
#[test]
fn other_quotas_pass_the_checks_of_a_policy() {
    let paced = Algorithm::SubWindows(Slots::strict(5).paced());
    let error = share_of(&["10/s", "10/min"], |limit| (paced, *limit.quota())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
    assert!(error.to_string().contains("are paced"), "{error}");
    let log = |limit: &Limit| (Algorithm::SlidingLog, *limit.quota());
    let error = share_of(&["1001/s", "2000/min"], log).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuota, "{error}");
    // Shares of different limits may be the same.
    let one_a_minute = |_: &Limit| (Algorithm::Gcra, Quota::per_minute(1));
    assert_eq!(share_of(&["1/s", "60/min"], one_a_minute).unwrap().limits().len(), 2);
}

/// `with_quotas` dropped the horizon: an hour became a minute.
#[test]
fn a_limit_keeps_its_horizon_under_another_quota() {
    let five = quota("5/s");
    let horizon = |text: &str, algorithm: Algorithm| {
        share_of(&[text], |_| (algorithm, five)).unwrap().limits()[0].horizon()
    };
    let queue = Algorithm::LeakyQueue { depth: 10 };
    let hour = Duration::from_secs(3_600);
    assert_eq!(horizon("10/s horizon 1h", Algorithm::Gcra), hour);
    assert_eq!(horizon("10/s horizon 1h by sliding-log", Algorithm::SlidingLog), hour);
    // The depth of a queue is its horizon.
    assert_eq!(horizon("10/s horizon 1h", queue), Duration::from_secs(2));
    assert_eq!(horizon("10/s by leaky-queue depth 5", queue), Duration::from_secs(2));
    assert_eq!(horizon("10/s by leaky-queue depth 5", Algorithm::Gcra), Duration::from_secs(60));
}

/// `Policy::token_bucket` dropped the quota's own burst in silence.
#[test]
#[should_panic(expected = "the capacity")]
fn a_token_bucket_refuses_a_second_capacity() {
    let _ = Policy::token_bucket("test", 5, Quota::per_second(10).with_burst(100));
}

#[test]
fn buckets_are_gcra_by_other_names() {
    let gcra = Policy::gcra("test", Quota::per_second(10).with_burst(100));
    assert_eq!(Policy::token_bucket("test", 100, Quota::per_second(10)), gcra);
    assert_eq!(Policy::leaky_bucket("test", 100, Quota::per_second(10)), gcra);
}

#[test]
fn an_identity_has_the_name_the_algorithm_the_span_and_another_horizon() {
    for (policy, identity) in [
        ("60/min", "gcra.60s"),
        ("600/min", "gcra.60s"),
        ("10/s burst 600", "gcra.60s"),
        ("60/min burst 1", "gcra.1s"),
        ("7/min burst 5", "gcra.42857142858ns"),
        ("1/ms", "gcra.1ms"),
        ("60/min horizon 5min", "gcra.60s+300s"),
        ("60/min horizon 1min", "gcra.60s"),
        ("60/min horizon 0s", "gcra.60s+0s"),
        ("60/min by leaky-queue depth 60", "gcra.60s"),
        ("60/min by leaky-queue depth 90", "gcra.60s+90s"),
        ("1000/h by fixed-window", "fixed-window.3600s"),
        ("1/h by fixed-window", "fixed-window.3600s"),
        ("1000/h by aligned-window horizon 1d", "aligned-window.3600s+86400s"),
        ("100/1500ms by sliding-counter", "sliding-counter.1500ms"),
        ("100/min by sliding-log", "sliding-log.60s"),
        ("100/min by sub-windows 6 slots", "sub-windows.70s.10s"),
        ("100/min by sub-windows 6 slots paced", "sub-windows.70s.10s"),
        ("100/min by sub-windows 6 slots loose", "sub-windows.60s.10s"),
        ("100/s by sub-windows 7 slots", "sub-windows.1142864us.142858us"),
    ] {
        assert_eq!(Policy::parse("test", policy).unwrap().identities(), [identity], "{policy}");
    }
    let hourly = Policy::fixed_window("hour", Quota::per_hour(10));
    let several = Policy::all_of("api", [hourly, Policy::gcra("api", Quota::per_second(1))]);
    assert_eq!(several.unwrap().identities(), ["gcra.1s", "hour/fixed-window.3600s"]);
}

proptest! {
    #[test]
    fn policies_share_the_states_of_their_keys_if_their_identities_are_equal(
        policies in any_singles_alike(),
    ) {
        for policy in &policies {
            let mut limiter = InMemory::new(policies[0].clone());
            let charged = limiter.charge(Timestamp::ZERO, "key", Cost::ONE);
            prop_assert_eq!(charged.permits(), 1);
            limiter.switch(policy);
            let is_fresh = limiter.peek(Timestamp::ZERO, "key").reset_after().is_zero();
            prop_assert_eq!(is_fresh, policy.identities() != policies[0].identities());
            let is_reset = policies[0].limits_reset_by(policy).len() == 1;
            prop_assert_eq!(is_fresh, is_reset);
        }
    }

    #[test]
    fn a_scaled_policy_keeps_its_states_and_has_no_more_permits(
        policy in any_single(),
        percent in 0..=300_u32,
    ) {
        match policy.scaled(percent) {
            Ok(scaled) => {
                prop_assert_eq!(scaled.identities(), policy.identities());
                let [quota, whole] = [&scaled, &policy].map(|it| *it.limits()[0].quota());
                let most = u128::from(whole.permits()) * u128::from(percent) / 100;
                let is_smallest = percent < 100 && quota.permits() <= whole.permits();
                prop_assert!(u128::from(quota.permits()) <= most || is_smallest, "{quota} of {whole}");
            }
            Err(error) => {
                let is_uncountable = error.to_string().contains("no whole number of microseconds");
                prop_assert!(percent > 100 || is_uncountable, "{policy:?}: {error}");
            }
        }
    }
}
