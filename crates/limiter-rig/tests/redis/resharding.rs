//! In a cluster, slots that move while their keys are in use, and moves that are interrupted: each call is decided, and
//! nothing is admitted beyond the limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::join_all;
use limiter_core::{Cost, Receipt};
use limiter_redis::{RedisLimiter, fred::util::redis_keyslot};
use limiter_rig::server::{Cluster, wait_until};

use crate::{PATIENT, key_of, policy};

async fn limiter(cluster: &Cluster, text: &str) -> RedisLimiter {
    let builder = RedisLimiter::builder(policy(text)).denial_cache(0).deadline(PATIENT);
    builder.connect(&cluster.url()).await.unwrap()
}

/// Returns subjects whose keys are in one slot, and the slot.
fn in_one_slot(limiter: &RedisLimiter, count: usize) -> (Vec<String>, u16) {
    let slot = |subject: &str| redis_keyslot(key_of(limiter, subject).as_bytes());
    let first = slot("0");
    let subjects = (0..).map(|number: u64| number.to_string());
    (subjects.filter(|subject| slot(subject) == first).take(count).collect(), first)
}

/// Waits until so many more have been counted.
fn wait_for(more: u64, counted: &AtomicU64) {
    let all = counted.load(Relaxed) + more;
    wait_until("calls are decided", || counted.load(Relaxed) >= all);
}

/// Checks and refunds of many subjects while the slot moves there, further and back, with keys on both sides, and one
/// move interrupted and begun again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_traffic_is_not_noticed() {
    // As many as are never used up. None recovers during the test.
    const LIMIT: u64 = 50_000;
    const OLD_SUBJECTS: usize = 10;
    const STAGE: u64 = 300;

    for text in ["50000/365d", "50000/365d, 90000/366d"] {
        let cluster = Arc::new(Cluster::start());
        let limiter = limiter(&cluster, text).await;
        let (subjects, slot) = in_one_slot(&limiter, 2 * OLD_SUBJECTS);
        let charged: Vec<_> = subjects.iter().map(|_| AtomicU64::new(0)).collect();
        for (subject, charged) in subjects.iter().zip(&charged).take(OLD_SUBJECTS) {
            assert!(limiter.check(&**subject).await.unwrap().is_admitted());
            charged.fetch_add(1, Relaxed);
        }

        let (over, calls) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
        let traffic = join_all((0..8).map(async |_| {
            while !over.load(Relaxed) {
                let number = usize::try_from(calls.fetch_add(1, Relaxed)).unwrap();
                let place = number % subjects.len();
                let reserved = limiter.reserve(&*subjects[place], Cost::ONE, Duration::ZERO).await;
                let receipt = reserved.unwrap().into_receipt().unwrap();
                if number % 3 == 0 {
                    assert_eq!(limiter.refund(receipt).await.unwrap(), 1);
                } else {
                    charged[place].fetch_add(1, Relaxed);
                }
            }
        }));
        let moves = tokio::task::spawn_blocking({
            let (cluster, calls) = (Arc::clone(&cluster), Arc::clone(&calls));
            let keys: Vec<_> = subjects.iter().map(|subject| key_of(&limiter, subject)).collect();
            move || {
                let first = cluster.owner(slot);
                for to in [(first + 1) % 3, (first + 2) % 3, first] {
                    wait_for(STAGE, &calls);
                    let moving = cluster.begin_move(slot, to);
                    wait_for(STAGE, &calls);
                    for key in &keys[..OLD_SUBJECTS / 2] {
                        moving.move_key(key);
                    }
                    drop(moving);
                    wait_for(STAGE, &calls);
                    let moving = cluster.begin_move(slot, to);
                    moving.move_keys();
                    wait_for(STAGE, &calls);
                    moving.finish();
                }
                wait_for(STAGE, &calls);
            }
        });
        let end = async {
            moves.await.unwrap();
            over.store(true, Relaxed);
        };
        tokio::join!(traffic, end);

        for (subject, charged) in subjects.iter().zip(&charged) {
            let left = limiter.peek(&**subject).await.unwrap().remaining();
            assert_eq!(left, LIMIT - charged.load(Relaxed), "{text}: {subject}");
        }
        println!("{text}: {} calls while a slot moved three times", calls.load(Relaxed));
    }
}

/// A subject, how many permits it has left, and the receipt of one that it took.
struct Subject {
    name: String,
    left: u64,
    receipt: Option<Receipt>,
}

impl Subject {
    async fn reserve(&mut self, limiter: &RedisLimiter) {
        let reserved = limiter.reserve(&*self.name, Cost::ONE, Duration::ZERO).await.unwrap();
        self.receipt = reserved.into_receipt();
        assert!(self.receipt.is_some());
        self.left -= 1;
    }

    /// Checks more often than the limit admits.
    async fn use_up(&mut self, limiter: &RedisLimiter, what: &str) {
        let mut admitted = 0;
        for _ in 0..6 {
            admitted += u64::from(limiter.check(&*self.name).await.unwrap().is_admitted());
        }
        assert_eq!(admitted, self.left, "{} {what}", self.name);
        self.left = 0;
    }
}

/// Each call of a policy has one key, so that none has to wait for the end of a move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_refunds_and_resets_hold_while_a_move_is_interrupted() {
    let cluster = Cluster::start();
    for text in ["3/d, 20/2d", "3/d by fixed-window, 20/2d", "3/d by sliding-counter", "3/d"] {
        let limiter = limiter(&cluster, text).await;
        for node in 0..3 {
            cluster.node(node).command(&["FLUSHALL"]).unwrap();
        }
        let (names, slot) = in_one_slot(&limiter, 9);
        let subjects = names.into_iter().map(|name| Subject { name, left: 3, receipt: None });
        let mut subjects: Vec<_> = subjects.collect();
        // The keys of the first three move, those of the next three do not, and the others are fresh.
        for subject in &mut subjects[..6] {
            subject.reserve(&limiter).await;
        }
        let to = (cluster.owner(slot) + 1) % 3;
        let moving = cluster.begin_move(slot, to);
        for subject in &subjects[..3] {
            moving.move_key(&key_of(&limiter, &subject.name));
        }
        drop(moving);

        for subject in &mut subjects {
            if subject.receipt.is_none() {
                subject.reserve(&limiter).await;
            }
            subject.use_up(&limiter, text).await;
            assert_eq!(limiter.refund(subject.receipt.take().unwrap()).await.unwrap(), 1);
            subject.left = 1;
            subject.use_up(&limiter, "after a refund").await;
        }
        for subject in subjects.iter_mut().step_by(2) {
            limiter.reset(&*subject.name).await.unwrap();
            subject.left = 3;
            subject.reserve(&limiter).await;
        }
        cluster.begin_move(slot, to).finish();
        for subject in &mut subjects {
            subject.use_up(&limiter, "after the move").await;
        }
        assert_eq!((limiter.counters().short_circuited, crate::failures(&limiter)), (0, 0));
    }
}
