//! A user who may not call one of the commands by which scripts write: what needs it fails and names the command, nothing is
//! admitted beyond the limit, and no key stays without an expiry. What failed may have charged.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
use limiter_core::{Cost, Error, ErrorKind, Limit, Policy, Receipt};
use limiter_double::{Value, commands};
use limiter_test::{policies::any_policy, properties};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{TestCaseError, TestRunner},
};

use super::{
    client::Client,
    store::{Store, unique},
};
use crate::{RedisLimiter, scripts::SCRIPT_COMMANDS};

/// Checks of both are one batch.
const KEYS: [&str; 2] = ["own", "other"];

#[derive(Clone, Copy, Debug)]
enum Act {
    Checks,
    /// Within no time, or any.
    Reserve(Duration),
    Refund,
    Reset,
    /// Someone else writes nonsense.
    Damage,
}

/// What passes before, as a part of a window, the command that is denied, and what is done.
type Step = (u32, Option<&'static str>, Act);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let writes = commands().iter().filter(|it| it.flags.contains(&"write"));
    let writes: BTreeSet<_> = writes.map(|it| it.name.to_uppercase()).collect();
    let writes = SCRIPT_COMMANDS.iter().copied().filter(|name| writes.contains(*name));
    let denied =
        prop_oneof![3 => select(writes.collect::<Vec<_>>()).prop_map(Some), 1 => Just(None)];
    let act = prop_oneof![
        6 => Just(Act::Checks),
        2 => Just(Act::Reserve(Duration::ZERO)),
        1 => Just(Act::Reserve(Duration::MAX)),
        2 => Just(Act::Refund),
        1 => Just(Act::Reset),
        1 => Just(Act::Damage),
    ];
    vec((prop_oneof![Just(0), 0..=60_u32], denied, act), 1..=20)
}

struct Denied {
    store: Arc<Store>,
    limiter: RedisLimiter<Client>,
    receipts: Vec<Receipt>,
}

impl Denied {
    fn deny(&self, command: Option<&str>) {
        self.store.client.set_up(|server| server.deny(command.as_slice()));
    }

    fn left(&self) -> [i64; 2] {
        KEYS.map(|key| {
            let usage = self.store.block_on(self.limiter.peek(key)).unwrap();
            i64::try_from(usage.remaining()).unwrap()
        })
    }

    fn damage(&self) {
        let client = &self.store.client;
        for key in self.limiter.stored_keys("own").unwrap() {
            match client.stored(&key).map(|stored| stored.value) {
                Some(Value::Hash(fields)) => {
                    let (field, _) = &fields[0];
                    client.execute(&[b"HSET", &*key, field, b"nonsense"]);
                }
                Some(_) => _ = client.execute(&[b"LSET".as_slice(), &key, b"0", b"nonsense"]),
                None => {}
            }
        }
    }

    /// Returns by how many permits each key may have more than before, or the error.
    fn act(&mut self, act: Act) -> Vec<Result<i64, Error>> {
        let Self { store, limiter, receipts } = self;
        let own = match act {
            Act::Checks => {
                let checks: Vec<_> = KEYS.iter().map(|key| limiter.check(*key)).collect();
                let decisions = store.block_on(join_all(checks)).into_iter();
                return decisions.map(|it| it.map(|it| -i64::from(it.is_admitted()))).collect();
            }
            Act::Reserve(within) => {
                let reserved = store.block_on(limiter.reserve("own", Cost::ONE, within));
                reserved.map(|reserved| {
                    // What is reserved for later is in no window that counts now.
                    let charged = reserved.is_admitted() && within.is_zero();
                    receipts.extend(reserved.into_receipt());
                    -i64::from(charged)
                })
            }
            Act::Refund => match receipts.pop() {
                Some(receipt) => {
                    let refunded = store.block_on(limiter.refund(receipt));
                    refunded.map(|permits| i64::try_from(permits).unwrap())
                }
                None => Ok(0),
            },
            Act::Reset => store.block_on(limiter.reset("own")).map(|()| i64::MAX),
            Act::Damage => Ok(0),
        };
        vec![own, Ok(0)]
    }
}

/// A log's script once dropped ended entries and wrote the newest one before a denied RPUSH. A denied command of one key
/// once admitted the others of its batch.
#[test]
fn what_fails_for_a_denied_command_admits_nothing() {
    let longest = |limits: &[Limit]| limits.iter().map(|it| it.quota().window()).max().unwrap();
    let law = |(policy, steps): (Policy, Vec<Step>)| {
        let store = Store::new();
        let limiter = store.limiter_of(&unique(), &policy, 0);
        let mut denied = Denied { store, limiter, receipts: Vec::new() };
        for (parts, command, act) in steps {
            denied.store.pass(longest(policy.limits()) / 50 * parts);
            if matches!(act, Act::Damage) {
                denied.damage();
            }
            let before = denied.left();
            denied.deny(command);
            let outcomes = denied.act(act);
            denied.deny(None);
            let after = denied.left();
            for (place, outcome) in outcomes.into_iter().enumerate() {
                let (before, after) = (before[place], after[place]);
                let more = match outcome {
                    Ok(more) => more,
                    Err(error) => {
                        let is_named = command.is_some_and(|it| error.to_string().contains(it));
                        prop_assert!(is_named, "{error} without {command:?}");
                        // It may have written before.
                        prop_assert_eq!(error.kind(), ErrorKind::Unexpected);
                        i64::from(matches!(act, Act::Refund))
                    }
                };
                prop_assert!(after <= before.saturating_add(more), "{before}, {after}: {act:?}");
            }
            let mut lasting = Vec::new();
            for key in KEYS.iter().flat_map(|key| denied.limiter.stored_keys(*key).unwrap()) {
                let stored = denied.store.client.stored(&key);
                lasting.extend(stored.filter(|it| it.expires_at.is_none()));
            }
            prop_assert!(lasting.is_empty(), "{lasting:?} after {act:?} without {command:?}");
        }
        Ok::<_, TestCaseError>(())
    };
    TestRunner::new(properties::config(file!(), 96)).run(&(any_policy(), steps()), law).unwrap();
}
