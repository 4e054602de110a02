//! A server, calls of its scripts, and random policies and schedules.

use std::time::Duration;

use crate::{Reply, Server, Value};
use limiter_core::{Algorithm, Policy, Quota, Slots};
use proptest::{collection::vec, prelude::*};

use crate::tests::arguments::Arguments;

/// When schedules begin, in microseconds of Unix time.
pub(crate) const START: i64 = 1_702_080_000_000_000;

/// The names of the scripts, which are their texts here.
const NAMES: [&str; 8] = ["gcra", "window", "counter", "log", "policy", "lease", "refund", "reset"];

pub(crate) struct World {
    pub(crate) server: Server,
}

/// What to give back of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refund {
    pub(crate) permits: u64,
    pub(crate) cost: u64,
    pub(crate) made: i64,
    pub(crate) at: i64,
    pub(crate) mark: i64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { server: Server::new(NAMES.map(|name| (name, name))) }
    }

    pub(crate) fn call(
        &mut self,
        now: i64,
        script: &str,
        keys: &[&str],
        rest: Vec<String>,
    ) -> Reply {
        let words = ["EVAL".to_owned(), script.to_owned(), keys.len().to_string()].into_iter();
        let words: Vec<_> = words.chain(keys.iter().map(ToString::to_string)).chain(rest).collect();
        self.server.execute(&words, now)
    }

    /// Asks the script `policy` for a cost within some time, or without a receipt if that is -1.
    pub(crate) fn take(&mut self, now: i64, limit: &Arguments, cost: u64, within: i64) -> Vec<i64> {
        let head = ["1".to_owned(), within.to_string()].into_iter().chain(limit.general());
        let rest = head.chain([cost.to_string()]).collect();
        numbers(&self.call(now, "policy", &["key"], rest)).expect("a decision")
    }

    /// Asks the hot script, and then the script `policy` if that has to decide.
    pub(crate) fn check(&mut self, now: i64, limit: &Arguments, cost: u64) -> (Vec<i64>, bool) {
        if let Some((script, rest)) = limit.hot() {
            let costs = if cost == 1 { vec![] } else { vec![cost.to_string()] };
            let reply = self.call(now, script, &["key"], [rest, costs].concat());
            if let Some(reply) = numbers(&reply) {
                return (reply, true);
            }
        }
        (self.take(now, limit, cost, -1), false)
    }

    pub(crate) fn refund(&mut self, now: i64, limit: &Arguments, refund: &Refund) -> u64 {
        let Refund { permits, cost, made, at, mark } = *refund;
        let head = [permits.to_string(), cost.to_string(), made.to_string(), at.to_string()];
        let head = head.into_iter().chain(["0".to_owned()]);
        let rest = head.chain(limit.general()).chain([mark.to_string()]).collect();
        match self.call(now, "refund", &["key", "key:leases"], rest) {
            Reply::Integer(permits) => u64::try_from(permits).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns what is stored at the key, for a message.
    pub(crate) fn value(&self) -> Option<Vec<String>> {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        self.server.stored(b"key").map(|stored| match &stored.value {
            Value::Text(value) => vec![text(value)],
            Value::List(elements) => elements.iter().map(text).collect(),
            Value::SortedSet(members) => members.keys().map(text).collect(),
        })
    }
}

/// Returns the numbers of a reply to one request, `None` for nothing.
fn numbers(reply: &Reply) -> Option<Vec<i64>> {
    let integer = |reply: &Reply| match reply {
        Reply::Integer(number) => *number,
        other => panic!("{other:?}"),
    };
    match reply {
        Reply::Nil => None,
        Reply::Array(numbers) => Some(numbers.iter().map(integer).collect()),
        number => Some(vec![integer(number)]),
    }
}

/// A step of the clock in thousandths of a window for each permit, a cost, and what is called.
pub(crate) type Step = (i64, u64, u64);

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        4 => Just(0_i64),
        8 => 0..=1_500_i64,
        4 => 0..=20_000_i64,
        1 => 0..=2_000_000_i64,
        1 => -3_000_000..=0_i64,
    ];
    let cost = prop_oneof![8 => Just(1_u64), 4 => 2..=6_u64, 1 => 1..=3_000_u64];
    vec((gap, cost, any::<u64>()), 1..200)
}

/// Returns the moment of a step.
pub(crate) fn after(now: i64, gap: i64, quota: &Quota) -> i64 {
    let window = i64::try_from(quota.window().as_micros()).unwrap();
    let permit = window / i64::try_from(quota.permits()).unwrap().clamp(1, 1_000);
    let most = 900_000_000_000_000;
    (now + permit.max(1).saturating_mul(gap) / 1_000).clamp(START - most / 10, START + most)
}

/// Returns one to three policies of one family.
pub(crate) fn policies(
    algorithms: impl Strategy<Value = Algorithm> + Clone,
) -> impl Strategy<Value = Vec<Policy>> {
    let window = prop_oneof![Just(1_u64), Just(1_000), 1..=1_000_u64, 1..=366 * 86_400_000_u64];
    let permits = prop_oneof![4 => 1..=15_u64, 1 => 16..=5_000_u64, 1 => 1..=5_000_000_u64];
    let horizon = prop_oneof![Just(None), (0..=100_000_u64).prop_map(Some)];
    let policy = (algorithms, window, permits, horizon);
    let policy = policy.prop_filter_map("not served", |(algorithm, window, permits, horizon)| {
        let quota = Quota::new(permits, Duration::from_millis(window)).ok()?;
        let policy = Policy::new("test", algorithm, quota).ok()?;
        let horizon = horizon.map(Duration::from_millis);
        Some(horizon.and_then(|it| policy.clone().with_horizon(it).ok()).unwrap_or(policy))
    });
    let all = prop_oneof![vec(policy.clone(), 1), vec(policy, 2..=3)];
    all.prop_filter("other families", |all| {
        all.iter().all(|policy| policy.families() == all[0].families())
    })
}

pub(crate) fn sub_windows() -> impl Strategy<Value = Algorithm> + Clone {
    let number = prop_oneof![1..=12_u32, Just(60), Just(1_000)];
    (number, any::<bool>(), any::<bool>()).prop_map(|(number, loose, paced)| {
        let slots = if loose && number > 1 { Slots::loose(number) } else { Slots::strict(number) };
        Algorithm::SubWindows(if paced { slots.paced() } else { slots })
    })
}
