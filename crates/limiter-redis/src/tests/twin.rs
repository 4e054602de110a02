//! Law 8: the script and its twin take the same decisions, and leave the same state and lifetime.

use std::sync::Arc;

use fred::types::Value;
use limiter_core::{Cost, Decision, Quota, Timestamp, algorithm::Resolution::Micros};
use limiter_test::{
    laws::Law,
    schedule::{Scenario, Time, quotas, scenarios},
    subject::Subject,
};
use proptest::{prelude::*, test_runner::TestRunner};

use super::store::{EPOCH, InRedis, Store};
use crate::scripts::gcra::{Gcra, twin::Tat};

/// The script's key and the twin's state, side by side.
struct Pair {
    store: Arc<Store>,
    script: InRedis,
    twin: Gcra,
    state: Tat,
    key: Value,
    /// Where the script's time to live was kept, in milliseconds.
    life: Value,
}

impl Pair {
    fn new(store: &Arc<Store>, quota: Quota) -> Self {
        let script = store.limiter_of(quota);
        let key = script.store_key("key");
        let life = Value::Bytes([&key[..], b":life"].concat().into());
        let key = Value::Bytes(key.into());
        let twin = Gcra::new(&quota).unwrap();
        Self { store: Arc::clone(store), script, twin, state: Tat::default(), key, life }
    }

    /// Decides by both, and holds them equal.
    fn step(&mut self, now: Timestamp, cost: Cost) -> Result<Decision, TestCaseError> {
        let by_script = self.script.decide(now, "key", cost);
        let now = now.saturating_add(EPOCH);
        let by_twin = self.twin.decide(&mut self.state, now, cost);
        prop_assert_eq!(by_script, by_twin);

        let state = self.store.command("GET", vec![self.key.clone()]).as_string();
        let absent = Tat::default().format();
        prop_assert_eq!(state.unwrap_or(absent), self.state.format());
        if by_script.is_admitted() {
            // Until the debt is drained, and a millisecond more for those that have begun.
            let drain = u64::try_from(by_script.reset_after().as_micros()).unwrap();
            let drained = drain - u64::from(self.state.has_remainder());
            let life = self.store.command("GET", vec![self.life.clone()]).as_u64();
            prop_assert_eq!(life, Some(drained / 1_000 + 2));
        }
        Ok(by_script)
    }
}

fn cases<S: Strategy>(cases: u32, strategy: &S, law: impl Fn(S::Value) -> Law) {
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    TestRunner::new(config).run(strategy, law).unwrap();
}

#[test]
fn gcra_twins_agree_on_random_traffic() {
    let store = Store::new();
    cases(400, &scenarios(Micros, Time::AnyWay, 60), |scenario: Scenario| {
        let mut pair = Pair::new(&store, scenario.quota());
        for (now, cost) in scenario.requests() {
            let _ = pair.step(now, cost)?;
        }
        Ok(())
    });
}

#[test]
fn gcra_twins_agree_on_any_state_that_is_found() {
    let store = Store::new();
    let found = prop_oneof![
        "[0-9:. xinfae-]{0,8}",
        "[0-9]{14,18}",
        "17000[0-9]{11}:[0-9]{1,7}",
        "[0-9]{300,400}",
        Just(u64::MAX.to_string()),
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ];
    cases(400, &(quotas(Micros), found), |(quota, found)| {
        let mut pair = Pair::new(&store, quota);
        pair.state = Tat::parse(&found);
        store.command("SET", vec![pair.key.clone(), found.as_str().into()]);
        let now = Timestamp::from_nanos(1_000_000_000);

        let first = pair.script.decide(now, "key", Cost::ONE);
        let twin = pair.twin.decide(&mut pair.state, now.saturating_add(EPOCH), Cost::ONE);
        prop_assert_eq!(first, twin, "found {:?}", &found);
        let (wait, cost) = (first.retry_after().unwrap(), Cost::ONE);
        // Law 5: whatever it was, it is healed within one recovery.
        let next = pair.step(now.saturating_add(wait), cost)?;
        prop_assert!(next.is_admitted() || first.is_admitted(), "found {:?}", found);
        Ok(())
    });
}

/// Law 9, as far as one script can break it: another policy's remainder counts at most one
/// microsecond more than it was.
#[test]
fn a_changed_quota_keeps_the_debt() {
    let store = Store::new();
    let second = 1_000_000_000;
    let thirds = Quota::per_second(3).unwrap().with_burst(2).unwrap();
    let mut pair = Pair::new(&store, thirds);
    let debt = pair.step(Timestamp::from_nanos(second), Cost::ONE).unwrap().reset_after();

    pair.twin = Gcra::new(&Quota::per_second(1).unwrap().with_burst(2).unwrap()).unwrap();
    let mut other = store.limiter_of(Quota::per_second(1).unwrap().with_burst(2).unwrap());
    let state = store.command("GET", vec![pair.key.clone()]);
    let key = Value::Bytes(other.store_key("key").into());
    store.command("SET", vec![key, state]);
    let after = other.decide(Timestamp::from_nanos(second), "key", Cost::new(2).unwrap());
    let twin = pair.twin.decide(
        &mut pair.state,
        Timestamp::from_nanos(second).saturating_add(EPOCH),
        Cost::new(2).unwrap(),
    );
    assert_eq!(after, twin);
    assert_eq!((after.is_admitted(), after.reset_after()), (false, debt));
}
