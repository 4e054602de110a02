//! Keys that a limit's own script leaves undecided are sent to the script `policy`, and charges by it end back-offs.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use limiter_core::{Cost, Decision, Error, ErrorKind, Policy};

use crate::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply, scripts};

/// A client of a server on which `gcra` and `lease` leave keys of foreign subjects undecided, and nothing of full ones is
/// leased.
#[derive(Clone)]
struct Fleet {
    calls: Arc<Mutex<Vec<Call>>>,
    /// Whether no reply of the script `policy` arrives.
    is_cut_off: Arc<AtomicBool>,
}

/// The script of a call, how many keys it had, and its arguments.
type Call = (&'static str, usize, Vec<String>);

impl ScriptClient for Fleet {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        let words: Vec<_> =
            call.args().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let (name, _) = scripts::all()
            .find(|(_, text)| scripts::digest(text) == words[1])
            .expect("one of the scripts");
        let arguments = words[3 + call.keys.len()..].to_vec();
        self.calls.lock().unwrap().push((name, call.keys.len(), arguments));
        let subjects = if name == "lease" { call.keys.len() / 2 } else { call.keys.len() };
        let reply = |key: &Bytes| match name {
            "policy" => Self::policy(&words),
            _ if String::from_utf8_lossy(key).contains("foreign") => ScriptReply::Nil,
            "lease" if String::from_utf8_lossy(key).contains("full") => {
                numbers(&[0, 6_000_000, 0, 1_000_000])
            }
            "lease" => numbers(&[1, 6_000_000, 9, 1, 1_800_000_000_000_000, 6_000_000]),
            _ => ScriptReply::Integer(6_000_000),
        };
        let mut replies: Vec<_> = call.keys.iter().take(subjects).map(reply).collect();
        if name == "policy" && self.is_cut_off.load(Relaxed) {
            return Err(CallError::new(Fault::NoReply, "no reply"));
        }
        Ok(if subjects == 1 { replies.remove(0) } else { ScriptReply::Array(replies) })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    /// It replies at once, so no deadline ends.
    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }

    fn supports_batches(&self) -> bool {
        true
    }
}

fn numbers(numbers: &[i64]) -> ScriptReply {
    ScriptReply::Array(numbers.iter().copied().map(ScriptReply::Integer).collect())
}

impl Fleet {
    fn start() -> Self {
        Self { calls: Arc::default(), is_cut_off: Arc::default() }
    }

    /// Admits the requests of a call, all of which want a receipt or none.
    fn policy(words: &[String]) -> ScriptReply {
        // Permits reserved for now, or one that is charged in any case.
        let delay_or_taken = words.iter().find_map(|word| match word.as_str() {
            "0" => Some(0),
            "-3" => Some(1),
            _ => None,
        });
        let receipt = delay_or_taken.map(|number| [number, 1_800_000_000_000_000, 6_000_000]);
        let receipt = receipt.map(Vec::from).unwrap_or_default();
        numbers(&[vec![1, 6_000_000, 8], receipt].concat())
    }

    fn limiter(&self, policy: &str, lease: bool) -> RedisLimiter<Self> {
        let policy = Policy::parse("test", policy).unwrap();
        let builder = RedisLimiter::builder(policy).lease(lease);
        builder.deadline(Duration::from_secs(5)).build_on(self.clone()).unwrap()
    }

    /// Returns the scripts of the calls since the last time, and how many keys they had.
    fn scripts(&self) -> Vec<(&'static str, usize)> {
        self.calls.lock().unwrap().drain(..).map(|(name, keys, _)| (name, keys)).collect()
    }
}

/// Makes checks at the same moment.
async fn check(
    limiter: &RedisLimiter<Fleet>,
    subjects: &[&'static str],
) -> Vec<Result<Decision, Error>> {
    let checks: Vec<_> = subjects.iter().map(|subject| limiter.check(*subject)).collect();
    join_all(checks).await
}

#[tokio::test]
async fn an_undecided_key_is_sent_to_the_script_policy() {
    let fleet = Fleet::start();
    let limiter = fleet.limiter("10/min", false);
    let results = check(&limiter, &["own", "foreign", "other", "foreign"]).await;
    let left: Vec<_> = results.into_iter().map(|result| result.unwrap().remaining()).collect();
    assert_eq!(left, [9, 8, 9, 8]);
    assert_eq!(fleet.scripts(), [("gcra", 4), ("policy", 2)]);
}

#[tokio::test]
async fn a_lost_second_call_is_the_error_of_its_keys_alone() {
    let fleet = Fleet::start();
    let limiter = fleet.limiter("10/min", false);
    fleet.is_cut_off.store(true, Relaxed);
    let results = check(&limiter, &["own", "foreign"]).await;
    assert!(results[0].as_ref().unwrap().is_admitted());
    assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::Undetermined);
    assert_eq!(fleet.scripts(), [("gcra", 2), ("policy", 1)]);
    assert_eq!(limiter.counters().undetermined, 1);
}

/// So that the caller of a reservation can give it back.
#[tokio::test]
async fn an_undecided_lease_becomes_a_charge_with_a_receipt() {
    let fleet = Fleet::start();
    let limiter = fleet.limiter("6000/min", true);
    assert!(limiter.lease().is_some());
    for subject in ["own", "foreign"] {
        // So often that a lease is asked for.
        for _ in 0..7 {
            assert!(limiter.check(subject).await.unwrap().is_admitted());
        }
        fleet.scripts();
        let reserved = limiter.reserve(subject, Cost::ONE, Duration::ZERO).await.unwrap();
        assert!(reserved.into_receipt().is_some(), "{subject}");
        let undecided = [("lease", 2), ("policy", 1)];
        let expected = if subject == "own" { &undecided[..1] } else { &undecided };
        assert_eq!(fleet.scripts(), expected, "{subject}");
    }
}

/// What was refused before a charge says too little of the wait after it.
#[tokio::test]
async fn a_charge_ends_the_back_off_of_its_key() {
    let fleet = Fleet::start();
    let limiter = fleet.limiter("6000/min", true);
    for _ in 0..7 {
        assert!(limiter.check("full").await.unwrap().is_admitted());
    }
    assert!(!limiter.check("full").await.unwrap().is_admitted());
    fleet.scripts();
    assert!(!limiter.check("full").await.unwrap().is_admitted());
    assert_eq!(fleet.scripts(), [], "it is cached");
    drop(limiter.charge("full", Cost::ONE).await.unwrap());
    assert!(!limiter.check("full").await.unwrap().is_admitted());
    assert_eq!(fleet.scripts(), [("policy", 1), ("lease", 2)]);
}

/// Scripts that can't apply a policy are not asked.
#[tokio::test]
async fn policies_without_a_script_of_their_own_are_sent_to_the_script_policy_at_once() {
    let fleet = Fleet::start();
    for policy in ["60/min by sub-windows 10 slots paced", "1000000/366d by sliding-counter"] {
        let limiter = fleet.limiter(policy, true);
        assert_eq!(limiter.lease(), None, "{policy}");
        assert!(limiter.check("own").await.unwrap().is_admitted());
        assert_eq!(fleet.scripts(), [("policy", 1)], "{policy}");
    }
}
