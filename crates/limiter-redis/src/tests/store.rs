//! Limiters of a process on a server of its own, whose clock the test sets. Nothing sleeps: all tasks run until each
//! waits for the clock.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures::{Stream, future::try_join_all, stream::FuturesUnordered};
use limiter_core::{Cost, Decision, Error, LimiterFuture, Policy, Timestamp};
use limiter_double::Stored;
use limiter_test::subject::{EPOCH, InStore, Process};

use super::client::{Client, Task};
use crate::{RedisLimiter, ScriptClient};

/// A limiter on a server whose clock the test sets.
pub(super) type InRedis = InStore<Store, RedisLimiter<Client>>;

/// A server or a cluster, and the tasks of a process that uses it.
pub(super) struct Store {
    pub(super) client: Client,
    tasks: Mutex<FuturesUnordered<Task>>,
}

/// Whether a task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Store {
    pub(super) fn new() -> Arc<Self> {
        Self::of(Client::new())
    }

    pub(super) fn on_cluster() -> Arc<Self> {
        Self::of(Client::of_cluster())
    }

    fn of(client: Client) -> Arc<Self> {
        client.set_time(Timestamp::ZERO.saturating_add(EPOCH));
        Arc::new(Self { client, tasks: Mutex::default() })
    }

    /// Returns an unused limiter of `policy`.
    pub(super) fn limiter(self: &Arc<Self>, policy: Policy) -> InRedis {
        self.limiter_for(&[policy])
    }

    /// Returns an unused limiter of the first of several policies that take turns.
    pub(super) fn limiter_for(self: &Arc<Self>, policies: &[Policy]) -> InRedis {
        self.process_of(&unique(), policies, false)
    }

    /// Returns a limiter of those that share a prefix, as a process has it: with leases or without.
    pub(super) fn process_of(
        self: &Arc<Self>,
        prefix: &str,
        policies: &[Policy],
        lease: bool,
    ) -> InRedis {
        // A cached denial follows the clock of the process, which does not step back.
        let settings = |builder: crate::Builder| builder.denial_cache(0).lease(lease);
        let limiter = self.limiter_with(prefix, &policies[0], settings);
        InStore::of(Arc::clone(self), limiter, policies)
    }

    /// Returns a limiter that caches so many denials.
    pub(super) fn limiter_of(
        &self,
        prefix: &str,
        policy: &Policy,
        denials: usize,
    ) -> RedisLimiter<Client> {
        self.limiter_with(prefix, policy, |builder| builder.denial_cache(denials))
    }

    /// Returns a limiter with more settings.
    pub(super) fn limiter_with(
        &self,
        prefix: &str,
        policy: &Policy,
        settings: impl FnOnce(crate::Builder) -> crate::Builder,
    ) -> RedisLimiter<Client> {
        // So that what is drawn at random, such as when a lease is asked for again, is the same in each run.
        let builder = RedisLimiter::builder(policy.clone()).prefix(prefix).seed(1);
        let builder = builder.clock(self.client.clock()).deadline(Duration::from_secs(10));
        settings(builder).build_on(self.client.clone()).unwrap()
    }

    /// Returns the output of a future, and runs what follows from it.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(Arc::clone(&woken));
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            self.run();
            if let Poll::Ready(output) = polled {
                return output;
            }
            assert!(woken.0.load(Ordering::SeqCst), "nothing but the clock can wake it");
        }
    }

    /// Returns the output of a future that needs no task.
    pub(super) fn poll<T>(&self, future: impl Future<Output = T>) -> T {
        let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
        for _ in 0..3 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
        }
        panic!("it waits for a task")
    }

    /// Returns the output of a future, and lets time pass while only the clock can wake it.
    pub(super) fn settle<T>(&self, future: impl Future<Output = T>) -> T {
        let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
        loop {
            let polled = future.as_mut().poll(&mut context);
            self.run();
            match polled {
                Poll::Ready(output) => return output,
                Poll::Pending => self.pass(Duration::from_micros(100)),
            }
        }
    }

    /// Runs all tasks until each waits.
    pub(super) fn run(&self) {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (mut tasks, mut spawned) = (self.tasks.lock().unwrap(), self.client.spawned());
        loop {
            woken.0.store(false, Ordering::SeqCst);
            tasks.extend(spawned);
            let has_ended =
                matches!(Pin::new(&mut *tasks).poll_next(&mut context), Poll::Ready(Some(())));
            spawned = self.client.spawned();
            if !has_ended && spawned.is_empty() && !woken.0.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Lets time pass, and runs what it wakes.
    pub(super) fn pass(&self, time: Duration) {
        self.client.pass(time);
        self.run();
    }

    /// Starts an operation, and returns where its outcome will be.
    pub(super) fn start<T: Send + 'static>(&self, asked: LimiterFuture<T>) -> Asked<T> {
        let outcome = Arc::new(Mutex::new(None));
        let of_task = Arc::clone(&outcome);
        self.client.spawn(async move {
            let output = asked.await;
            *of_task.lock().unwrap() = Some(output);
        });
        self.run();
        Asked(outcome)
    }

    /// Returns how many tasks have not ended.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }

    /// Drops all tasks, as a runtime does that ends.
    pub(super) fn drop_tasks(&self) {
        *self.tasks.lock().unwrap() = FuturesUnordered::new();
    }
}

/// Where the outcome of an operation will be.
pub(super) struct Asked<T>(Arc<Mutex<Option<Result<T, Error>>>>);

impl<T> Asked<T> {
    pub(super) fn take(&self) -> Option<Result<T, Error>> {
        self.0.lock().unwrap().take()
    }
}

impl Process for Store {
    fn set_clock(&self, now: Timestamp) {
        self.client.set_time(now);
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T {
        self.block_on(future).unwrap()
    }
}

/// Makes checks at the same moment.
pub(super) fn decide_together(
    subject: &InRedis,
    now: Timestamp,
    checks: &[(String, Cost)],
) -> Vec<Decision> {
    subject.set_clock(now);
    let checks = checks.iter().map(|(key, cost)| subject.limiter.check_n(key, *cost));
    subject.process.block_on(try_join_all(checks.collect::<Vec<_>>())).unwrap()
}

/// Returns what is stored of a key.
pub(super) fn states(subject: &InRedis, key: &str) -> Vec<Option<Stored>> {
    let keys = subject.limiter.stored_keys(key).unwrap().into_iter();
    keys.map(|key| subject.process.client.stored(&key)).collect()
}

/// Gives the leases back, and ends what is under way.
pub(super) fn drain(subject: &InRedis, now: Timestamp) {
    subject.set_clock(now);
    subject.process.block_on(subject.limiter.drain(Duration::from_secs(10))).unwrap();
}

/// Returns a policy by its text, which has several limits between commas.
pub(super) fn policy(text: &str) -> Policy {
    let limits = text.split(", ").map(|limit| Policy::parse(limit, limit).unwrap());
    match limits.clone().count() {
        1 => Policy::parse("test", text).unwrap(),
        _ => Policy::all_of("test", limits).unwrap(),
    }
}

/// Returns a prefix that no other limiter has.
pub(super) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed).to_string()
}
