//! Memory and Redis decide alike, step by step, where both can hold a policy exactly.
//!
//! Redis counts in whole microseconds, so that waits are rounded up there. The policies here have
//! waits of whole microseconds.

use std::{sync::Arc, time::Duration};

use limiter_core::{Algorithm, Cost, Decision, Policy, Quota, Receipt, Slots, Timestamp, Usage};
use limiter_test::{
    laws::Law,
    properties,
    schedule::{self, Scenario, Tick, Time},
    subject::{InMemory, Operations, Subject},
};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::store::{InRedis, Store};

const KEY: &str = "key";
const CALLS: usize = 60;

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let slots = (select(vec![1, 2, 3, 4, 6, 12]), any::<bool>(), any::<bool>());
    let slots = slots.prop_map(|(number, loose, paced)| {
        let slots = if loose && number > 1 { Slots::loose(number) } else { Slots::strict(number) };
        Algorithm::SubWindows(if paced { slots.paced() } else { slots })
    });
    let of_windows = Algorithm::one_of_each().filter(|it| !it.is_continuous());
    prop_oneof![
        2 => Just(Algorithm::Gcra),
        1 => (0..=4_u64).prop_map(|depth| Algorithm::LeakyQueue { depth }),
        2 => slots,
        4 => select(of_windows.collect::<Vec<_>>()),
    ]
}

/// Returns quotas whose windows, divided by their permits or slots, are whole microseconds.
fn quotas() -> impl Strategy<Value = Quota> {
    (1..=6_u64, 1..=20_u64).prop_map(|(permits, minutes)| {
        Quota::new(permits, Duration::from_millis(minutes * 60)).unwrap()
    })
}

fn single() -> impl Strategy<Value = Policy> {
    (algorithms(), quotas()).prop_filter_map("a window that can't be cut", |(algorithm, quota)| {
        Policy::new("test", algorithm, quota).ok()
    })
}

fn several() -> impl Strategy<Value = Policy> {
    vec((algorithms(), quotas()), 2..=3).prop_filter_map("limits at odds", |limits| {
        let limits = limits.into_iter().enumerate();
        let limits = limits.map(|(n, (of, quota))| Policy::new(&format!("{n}"), of, quota));
        Policy::all_of("test", limits.collect::<Result<Vec<_>, _>>().ok()?).ok()
    })
}

/// The limiters of one policy, side by side.
struct Both {
    has_one_limit: bool,
    memory: InMemory,
    redis: InRedis,
    receipts: Vec<(Receipt, Receipt)>,
}

impl Both {
    fn check(&mut self, now: Timestamp, cost: Cost) -> Law {
        let by_memory = self.memory.decide(now, KEY, cost);
        let by_redis = self.redis.decide(now, KEY, cost);
        prop_assert_eq!(rounded(&by_memory), rounded(&by_redis), "a check at {:?}", now);
        Ok(())
    }

    fn peek(&mut self, now: Timestamp) -> Law {
        let (by_memory, by_redis) = (self.memory.peek(now, KEY), self.redis.peek(now, KEY));
        prop_assert_eq!(in_whole(by_memory), in_whole(by_redis), "a peek at {:?}", now);
        Ok(())
    }

    fn reserve(&mut self, now: Timestamp, cost: Cost, within: Duration) -> Law {
        let by_memory = self.memory.reserve(now, KEY, cost, within);
        let by_redis = self.redis.reserve(now, KEY, cost, within);
        // A sliding counter's permits fade at times between two microseconds.
        let delay = by_memory.delay().map(in_micros);
        prop_assert_eq!(delay, by_redis.delay(), "a reservation within {:?} at {:?}", within, now);
        let (one, other) = (by_memory.decision(), by_redis.decision());
        prop_assert_eq!(rounded(&one), rounded(&other), "a reservation at {:?}", now);
        // Of several limits, one in Redis stays locked until a promised window that was refunded, where memory frees it.
        if self.has_one_limit || delay.is_some_and(|delay| delay.is_zero()) {
            self.receipts.extend(by_memory.into_receipt().zip(by_redis.into_receipt()));
        }
        Ok(())
    }

    fn refund(&mut self, now: Timestamp, chosen: usize) -> Law {
        if !self.receipts.is_empty() {
            let (memory, redis) = self.receipts.swap_remove(chosen % self.receipts.len());
            let kept = [0, 0, 1][chosen % 3];
            let by_memory = self.memory.refund(now, memory.keep(kept));
            let by_redis = self.redis.refund(now, redis.keep(kept));
            prop_assert_eq!(by_memory, by_redis, "a refund at {:?}", now);
        }
        self.peek(now)
    }

    fn reset(&mut self, now: Timestamp) -> Law {
        self.memory.reset(now, KEY);
        self.redis.reset(now, KEY);
        self.peek(now)
    }
}

fn in_micros(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap())
}

fn in_whole(usage: Usage) -> (u64, u64, Duration, usize) {
    (usage.burst(), usage.remaining(), in_micros(usage.reset_after()), usage.limit_index())
}

fn rounded(decision: &Decision) -> (bool, (u64, u64, Duration, usize), Option<Duration>) {
    let retry_after = decision.retry_after().map(in_micros);
    (decision.is_admitted(), in_whole(decision.usage()), retry_after)
}

/// Runs every operation, each chosen by a number.
fn step_by_step(store: &Arc<Store>, scenario: &Scenario, choices: &[usize]) -> Law {
    let policy = scenario.policy.clone();
    let mut both = Both {
        has_one_limit: policy.limits().len() == 1,
        memory: InMemory::new(policy.clone()),
        redis: store.limiter(policy),
        receipts: Vec::new(),
    };
    let window = scenario.quota().window();
    for (request, choice) in scenario.requests().zip(choices) {
        // At whole ticks of GCRA in memory, which are 64 ns for these quotas.
        let now = Timestamp::from_nanos(request.now.as_nanos() / 8_000 * 8_000);
        let cost = request.cost;
        let within = [Duration::ZERO, window / 2, window * 3][choice % 3];
        match choice / 3 % 16 {
            0..5 => both.check(now, cost)?,
            5 => both.peek(now)?,
            6..12 => both.reserve(now, cost, within)?,
            12..15 => both.refund(now, choice / 48)?,
            _ => both.reset(now)?,
        }
    }
    Ok(())
}

fn agree(policies: impl Strategy<Value = Policy>) {
    let store = Store::new();
    let traffic = schedule::traffic(policies, Tick::Micro, Time::Forward, CALLS);
    TestRunner::new(properties::config(file!(), 128))
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
