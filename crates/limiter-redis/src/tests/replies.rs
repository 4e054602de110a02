//! Replies that no script of ours gives.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Algorithm, Cost, ErrorKind, Key, Policy};

use crate::{
    CallError, RedisLimiter, ScriptCall, ScriptClient, ScriptReply,
    call::{
        check::{Charge, Route},
        list::{self, Ask},
    },
    in_flight::{enter::read_entry, permits_call::read_permits},
    scripts::{self, Plan},
};

fn policies() -> impl Iterator<Item = Policy> {
    let texts = Algorithm::one_of_each().map(|algorithm| format!("10/s by {algorithm}"));
    texts.map(|text| Policy::parse("api", &text).unwrap())
}

/// Returns all lists of at most five of these numbers, and each of them behind the flag of an admission.
fn lists(numbers: [i64; 5]) -> impl Iterator<Item = Vec<i64>> {
    let lists = (0..=5_u32).flat_map(move |length| {
        let number = move |each: usize, place| numbers[each / 5_usize.pow(place) % 5];
        let list = move |each| (0..length).map(|place| number(each, place)).collect();
        (0..5_usize.pow(length)).map(list)
    });
    lists.flat_map(|list: Vec<_>| [[&[1], &*list].concat(), list])
}

/// Reads a reply to a script in each way that there is.
fn read(script: &str, plan: &Plan, numbers: &[i64]) {
    let reply = || ScriptReply::Array(numbers.iter().copied().map(ScriptReply::Integer).collect());
    let routes = match script {
        "gcra" | "window" | "log" => {
            let _ = list::read(Ask::Peek, &[(plan, 1)], numbers);
            &[Charge::of(plan, Cost::ONE, 0).route][..]
        }
        "list" => &[Route::List],
        "lease" => &[Route::Lease],
        // A refund is one number, and a reset is done, whatever it replies.
        "refund" | "reset" => &[],
        "enter" => {
            let read = read_entry(&reply());
            assert!(read.is_none() || numbers.len() == 2, "{numbers:?}");
            &[]
        }
        "renew" | "leave" => {
            let read = read_permits(&reply(), 3);
            assert!(read.is_none() || numbers.len() == 3, "{numbers:?}");
            &[]
        }
        _ => panic!("no replies to {script} are read here; add how they are"),
    };
    for (route, wanted) in routes.iter().flat_map(|route| [0, 100].map(|wanted| (*route, wanted))) {
        let read = Charge { cost: Cost::ONE, wanted, route }.read(plan, numbers);
        if let Some(charged) = read.and_then(|read| read.charged) {
            charged.add_refund(plan, 1, &mut Vec::new());
        }
    }
}

#[test]
fn no_reply_to_a_script_is_more_than_an_error() {
    for policy in policies() {
        let plan = Plan::new(&policy, policy.name(), true);
        for reply in lists([i64::MIN, -1, 0, 1, i64::MAX]) {
            scripts::all().for_each(|(script, _)| read(script, &plan, &reply));
        }
    }
}

/// A client that replies what a test has planted.
#[derive(Clone)]
struct Planted {
    reply: Arc<Mutex<ScriptReply>>,
}

impl ScriptClient for Planted {
    async fn run(&self, _: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        Ok(self.reply.lock().unwrap().clone())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    /// It replies at once, so no deadline ends.
    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

/// The reply to a check was once read as a reservation whose decision was an admission, and which was refused.
#[tokio::test]
async fn a_reply_that_contradicts_itself_is_unexpected() {
    for policy in policies() {
        let reply = Arc::new(Mutex::new(ScriptReply::Integer(0)));
        let client = Planted { reply: Arc::clone(&reply) };
        let key = Key::from("key");
        let mut kinds = BTreeSet::new();
        for planted in lists([-100_001, -1, 0, 1, 100_000]) {
            let integers = planted.iter().copied().map(ScriptReply::Integer).collect();
            *reply.lock().unwrap() = ScriptReply::Array(integers);
            let what = format!("{}: {planted:?}", policy.families());
            // One for each reply, because replies that can't be read open its circuit breaker.
            let builder = RedisLimiter::builder(policy.clone()).denial_cache(0);
            let limiter =
                builder.deadline(Duration::from_secs(5)).build_on(client.clone()).unwrap();
            match limiter.reserve(&key, Cost::ONE, Duration::ZERO).await {
                Ok(reserved) => {
                    let decision = reserved.decision();
                    let is_admitted = decision.is_admitted();
                    let _ = kinds.insert(if is_admitted { "admitted" } else { "refused" });
                    assert_eq!(is_admitted, reserved.is_admitted(), "{what}");
                    let is_now = decision.retry_after() == Some(Duration::ZERO);
                    assert_eq!(is_admitted, is_now, "{what}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}"),
            }
            for (is_forced, taken) in [
                (false, limiter.take_up_to(&key, Cost::ONE).await),
                (true, limiter.charge(&key, Cost::ONE).await),
            ] {
                match taken {
                    Ok(taken) => {
                        let permits = u64::from(taken.is_admitted());
                        let is_none = is_forced && taken.permits() == 0;
                        assert!(taken.permits() == permits || is_none, "{what}: {taken:?}");
                        assert!(taken.is_admitted() || !is_forced, "{what}: {taken:?}");
                        let has_receipt = taken.permits() > 0;
                        assert_eq!(taken.into_receipt().is_some(), has_receipt, "{what}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}");
                    }
                }
            }
            match limiter.check_n(&key, Cost::ONE).await {
                Ok(decision) => {
                    let is_now = decision.retry_after() == Some(Duration::ZERO);
                    assert_eq!(decision.is_admitted(), is_now, "{what}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unexpected, "{what}: {error}"),
            }
        }
        assert_eq!(kinds.len(), 2, "{}: {kinds:?}", policy.families());
    }
}

/// A lease has at least the permits of the check that it was granted for.
#[test]
fn a_lease_of_fewer_permits_than_the_cost_is_no_admission() {
    for policy in ["1000/s", "1000/s by fixed-window"] {
        let policy = Policy::parse("api", policy).unwrap();
        let plan = Plan::new(&policy, policy.name(), true);
        let charge = Charge { cost: Cost::of(3), wanted: 100, route: Route::Lease };
        for (permits, is_admitted) in [(-6, false), (0, false), (2, false), (3, true), (6, true)] {
            let reply = [1, 600_000, 4, permits, 1, 600_000];
            let read = charge.read(&plan, &reply);
            assert_eq!(read.is_some(), is_admitted, "{policy:?}: {reply:?} {read:?}");
        }
    }
}
