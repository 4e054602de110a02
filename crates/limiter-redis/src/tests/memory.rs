//! Memory and Redis answer alike, step by step, wherever both hold a policy exactly.
//!
//! Redis tells times in whole microseconds, so that a wait is rounded up further there, and what is
//! charged at its end stands elsewhere. The policies here have waits of whole microseconds.

use std::time::Duration;

use limiter_core::{
    Cost, Decision, Kind, Policy, Quota, Receipt, Timestamp, Usage,
    algorithm::{Resolution::Micros, Slots, Start},
};
use limiter_test::{
    laws::Law,
    schedule::{self, Scenario, Time},
    subject::{InMemory, Operations, Subject},
};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::store::{InRedis, Store};
use crate::scripts::{PRELUDE, Plan};

const KEY: &str = "key";
const CALLS: usize = 60;

fn kinds() -> impl Strategy<Value = Kind> {
    let slots = (select(vec![1, 2, 3, 4, 6, 12]), any::<bool>(), any::<bool>());
    let slots = slots.prop_map(|(number, loose, paced)| {
        let slots = if loose { Slots::loose(number) } else { Slots::strict(number) };
        Kind::SubWindows(if paced { slots.unwrap().paced() } else { slots.unwrap() })
    });
    prop_oneof![
        2 => Just(Kind::Gcra),
        1 => (0..=4_u64).prop_map(|depth| Kind::LeakyQueue { depth }),
        1 => Just(Kind::FixedWindow(Start::FirstUse)),
        1 => Just(Kind::FixedWindow(Start::Aligned)),
        1 => Just(Kind::SlidingCounter),
        2 => slots,
        1 => Just(Kind::SlidingLog),
    ]
}

/// Returns quotas whose windows, cut into as many parts as they have permits, are whole microseconds.
fn quotas() -> impl Strategy<Value = Quota> {
    (1..=6_u64, 1..=20_u64).prop_map(|(permits, minutes)| {
        Quota::per(permits, Duration::from_millis(minutes * 60)).unwrap()
    })
}

fn single() -> impl Strategy<Value = Policy> {
    (kinds(), quotas()).prop_filter_map("a window that can't be cut", |(kind, quota)| {
        Policy::new("test", kind, quota).ok()
    })
}

fn several() -> impl Strategy<Value = Policy> {
    vec((kinds(), quotas()), 2..=3).prop_filter_map("limits at odds", |limits| {
        let limits = limits.into_iter().enumerate();
        let limits = limits.map(|(n, (kind, quota))| Policy::new(&format!("{n}"), kind, quota));
        Policy::several("test", limits.collect::<Result<Vec<_>, _>>().ok()?).ok()
    })
}

fn tiers() -> impl Strategy<Value = Policy> {
    (single(), quotas()).prop_filter_map("a window that can't be cut", |(policy, quota)| {
        let tier = Policy::new("other", policy.limits()[0].kind(), quota).ok()?;
        policy.with_tier(tier).ok()
    })
}

/// Returns the policy with windows twice as long: whatever is owed then is a whole number again.
fn slower(policy: &Policy) -> Policy {
    let limits = policy.limits().iter().map(|limit| {
        let quota = Quota::per(limit.quota().permits(), limit.quota().window() * 2).unwrap();
        Policy::new(limit.name(), limit.kind(), quota).unwrap()
    });
    let mut limits: Vec<_> = limits.collect();
    if let [_] = limits.as_slice() {
        limits.remove(0)
    } else {
        Policy::several(policy.name(), limits).unwrap()
    }
}

/// The limiters of one policy, side by side.
struct Both {
    memory: InMemory,
    redis: InRedis,
    policy: Policy,
    receipts: Vec<(Receipt, Receipt)>,
    replaced: u32,
    /// Whether the last check was admitted.
    last: bool,
}

impl Both {
    fn check(&mut self, now: Timestamp, cost: Cost) -> Law {
        let by_memory = self.memory.decide(now, KEY, cost);
        let by_redis = self.redis.decide(now, KEY, cost);
        prop_assert_eq!(rounded(&by_memory), rounded(&by_redis), "a check at {:?}", now);
        self.last = by_redis.is_admitted();
        Ok(())
    }

    fn check_by_tier(&mut self, now: Timestamp, cost: Cost) -> Law {
        let tiers: Vec<_> = self.policy.tiers().iter().map(|tier| tier.name().to_owned()).collect();
        for tier in tiers {
            let by_memory = self.memory.decide_by(now, &tier, KEY, cost);
            let by_redis = self.redis.decide_by(now, &tier, KEY, cost);
            prop_assert_eq!(rounded(&by_memory), rounded(&by_redis), "by {} at {:?}", tier, now);
        }
        Ok(())
    }

    fn peek(&mut self, now: Timestamp) -> Law {
        let (by_memory, by_redis) = (self.memory.peek(now, KEY), self.redis.peek(now, KEY));
        prop_assert_eq!(told(by_memory), told(by_redis), "a look at {:?}", now);
        Ok(())
    }

    fn reserve(&mut self, now: Timestamp, cost: Cost, within: Duration) -> Law {
        let by_memory = self.memory.reserve(now, KEY, cost, within);
        let by_redis = self.redis.reserve(now, KEY, cost, within);
        // A sliding counter's permits fade at moments between two microseconds.
        let delay = by_memory.delay().map(in_micros);
        prop_assert_eq!(delay, by_redis.delay(), "a reservation within {:?} at {:?}", within, now);
        let (one, other) = (by_memory.decision(), by_redis.decision());
        prop_assert_eq!(rounded(&one), rounded(&other), "a reservation at {:?}", now);
        self.receipts.extend(by_memory.into_receipt().zip(by_redis.into_receipt()));
        Ok(())
    }

    fn refund(&mut self, now: Timestamp, chosen: usize) -> Law {
        if !self.receipts.is_empty() {
            let (memory, redis) = self.receipts.swap_remove(chosen % self.receipts.len());
            let kept = [0, 0, 1][chosen % 3];
            self.memory.refund(now, memory.keep(kept));
            self.redis.refund(now, redis.keep(kept));
        }
        self.peek(now)
    }

    fn reset(&mut self, now: Timestamp) -> Law {
        self.memory.reset(now, KEY);
        self.redis.reset(now, KEY);
        self.peek(now)
    }

    /// Replaces the policy, and asks at once: memory rewrites a state when its policy is replaced,
    /// Redis when a request changes it next, and meanwhile it recovers as before.
    fn replace(&mut self, now: Timestamp) -> Law {
        // Aligned windows go on to an end of the new ones in memory, and to their own in Redis.
        let is_aligned = |kind| matches!(kind, Kind::FixedWindow(Start::Aligned));
        let any_aligned = self.policy.limits().iter().any(|limit| is_aligned(limit.kind()));
        if self.replaced == 3 || any_aligned || !self.policy.tiers().is_empty() {
            return Ok(());
        }
        // Entries that are over for the old window count in a longer one, as long as they are there:
        // memory forgets them whenever it looks, Redis when it admits something. And a fixed window that
        // is yet to begin ends as it was to in Redis, which only knows its end. An admission leaves
        // neither.
        self.check(now, Cost::ONE)?;
        let by_rate =
            |kind| matches!(kind, Kind::Gcra | Kind::LeakyQueue { .. } | Kind::SlidingCounter);
        let all_by_rate = self.policy.limits().iter().all(|limit| by_rate(limit.kind()));
        if !self.last && !all_by_rate {
            return Ok(());
        }
        self.replaced += 1;
        self.policy = slower(&self.policy);
        self.memory.replace(now, self.policy.clone());
        self.redis.replace(now, self.policy.clone());
        // Void in memory; in Redis unless the quotas are the same again.
        self.receipts.clear();
        self.check(now, Cost::ONE)
    }
}

fn in_micros(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap())
}

fn told(usage: Usage) -> (u64, u64, Duration, usize) {
    (usage.limit(), usage.remaining(), in_micros(usage.reset_after()), usage.limit_index())
}

fn rounded(decision: &Decision) -> (bool, (u64, u64, Duration, usize), Option<Duration>) {
    let retry_after = decision.retry_after().map(in_micros);
    (decision.is_admitted(), told(decision.usage()), retry_after)
}

/// Runs every operation, each chosen by a number.
///
/// Each step comes a microsecond later at least: Redis takes what happened in the microsecond of a
/// reset to have been before it.
fn step_by_step(store: &std::sync::Arc<Store>, scenario: &Scenario, choices: &[usize]) -> Law {
    let policy = scenario.policy.clone();
    // Policies with tiers are not replaced here.
    let slowest = match policy.tiers() {
        [] => slower(&slower(&slower(&policy))),
        _ => policy.clone(),
    };
    let mut both = Both {
        memory: InMemory::new(policy.clone()),
        redis: store.limiter(policy.clone()).with_slots_of(&slowest),
        policy,
        receipts: Vec::new(),
        replaced: 0,
        last: false,
    };
    let window = scenario.quota().window();
    for (index, ((now, cost), choice)) in scenario.requests().zip(choices).enumerate() {
        let now = now.saturating_add(Duration::from_micros(index as u64));
        let within = [Duration::ZERO, window / 2, window * 3][choice % 3];
        match choice / 3 % 16 {
            0..3 => both.check(now, cost)?,
            3..5 => both.check_by_tier(now, cost)?,
            5 => both.peek(now)?,
            6..11 => both.reserve(now, cost, within)?,
            11..14 => both.refund(now, choice / 48)?,
            14 => both.reset(now)?,
            _ => both.replace(now)?,
        }
    }
    Ok(())
}

fn agree(policies: impl Strategy<Value = Policy>) {
    let store = Store::new();
    let policies = policies.prop_filter("no script", |policy| Plan::new(PRELUDE, policy).is_ok());
    let traffic = schedule::traffic(policies, Micros, Time::Forward, CALLS);
    let default = ProptestConfig::default();
    let cases = default.cases.div_ceil(2);
    let config = ProptestConfig { cases, failure_persistence: None, ..default };
    TestRunner::new(config)
        .run(&(traffic, vec(any::<usize>(), CALLS)), |(scenario, choices)| {
            step_by_step(&store, &scenario, &choices)
        })
        .unwrap();
}

#[test]
fn memory_and_redis_agree_on_one_limit() {
    agree(single());
}

#[test]
fn memory_and_redis_agree_on_several_limits() {
    agree(several());
}

#[test]
fn memory_and_redis_agree_on_tiers() {
    agree(tiers());
}

/// Memory brings a state to the present whenever it looks, Redis when it writes; after a step back of the
/// clock, that makes a difference to all but those whose states time doesn't change. And memory lowers
/// what it has promised to no one, Redis what it has not promised for this key; so no one reserves.
#[test]
fn memory_and_redis_agree_when_the_clock_steps_back() {
    let store = Store::new();
    let is_still = |policy: &Policy| {
        let mut limits = policy.limits().iter();
        limits.all(|limit| {
            !matches!(limit.kind(), Kind::SlidingCounter | Kind::SubWindows(_) | Kind::SlidingLog)
        })
    };
    let policies =
        prop_oneof![single(), several(), tiers()].prop_filter("changes by itself", is_still);
    let traffic = schedule::traffic(policies, Micros, Time::AnyWay, CALLS);
    let default = ProptestConfig::default();
    let cases = default.cases.div_ceil(2);
    let config = ProptestConfig { cases, failure_persistence: None, ..default };
    let law = |scenario: Scenario| {
        let policy = scenario.policy.clone();
        let (memory, redis) = (InMemory::new(policy.clone()), store.limiter(policy.clone()));
        let mut both =
            Both { memory, redis, policy, receipts: Vec::new(), replaced: 0, last: false };
        for (index, (now, cost)) in scenario.requests().enumerate() {
            match index % 3 {
                0 => both.check_by_tier(now, cost)?,
                _ => both.check(now, cost)?,
            }
        }
        Ok(())
    };
    TestRunner::new(config).run(&traffic, law).unwrap();
}
