//! Waiting for permits, on a clock that moves only when everyone is idle.

#![expect(clippy::indexing_slicing, reason = "a helper that fails fails its test")]

mod changes;
mod deadlines;
mod forecasts;
mod late;
mod leaving;
mod order;
mod panics;
mod readings;
mod tasks;
mod threads;
mod wall;

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use limiter_core::{
    Algorithm, Clock, Cost, ManualClock, MemoryLimiter, Policy, Quota, Reservation, Slots,
    Timestamp,
};

type Keyed = MemoryLimiter<ManualClock>;
type Acquire = Pin<Box<dyn Future<Output = Reservation>>>;

/// Tasks that wait by one clock.
struct Crowd {
    clock: ManualClock,
    tasks: Vec<Task>,
    woken: Arc<Mutex<VecDeque<usize>>>,
    /// Who was admitted, and when.
    admitted: Vec<(usize, Duration)>,
    /// Who was refused, and when.
    refused: Vec<(usize, Duration)>,
}

struct Task {
    acquire: Option<Acquire>,
    signal: Arc<Signal>,
}

/// Counts how often a task is woken.
struct Signal {
    index: usize,
    wakes: AtomicUsize,
    woken: Arc<Mutex<VecDeque<usize>>>,
}

impl Crowd {
    fn new(clock: &ManualClock) -> Self {
        Self {
            clock: clock.clone(),
            tasks: Vec::new(),
            woken: Arc::default(),
            admitted: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Adds a task and polls it once.
    fn join(&mut self, acquire: impl Future<Output = Reservation> + 'static) -> usize {
        let index = self.tasks.len();
        let woken = Arc::clone(&self.woken);
        let signal = Arc::new(Signal { index, wakes: AtomicUsize::new(0), woken });
        self.tasks.push(Task { acquire: Some(Box::pin(acquire)), signal });
        self.poll(index);
        index
    }

    /// Adds so many tasks, each for a permit of the key `key`.
    fn join_for(&mut self, limiter: &Keyed, tasks: usize) {
        for _ in 0..tasks {
            self.join(limiter.acquire("key", Cost::ONE, None));
        }
    }

    /// Drops a task's future.
    fn leave(&mut self, index: usize) {
        self.tasks[index].acquire = None;
    }

    fn poll(&mut self, index: usize) {
        let now = now(&self.clock);
        let task = &mut self.tasks[index];
        let Some(acquire) = &mut task.acquire else { return };
        let waker = Waker::from(Arc::clone(&task.signal));
        if let Poll::Ready(reservation) = acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
            task.acquire = None;
            let admitted = is_admitted(&reservation);
            let log = if admitted { &mut self.admitted } else { &mut self.refused };
            log.push((index, now));
        }
    }

    /// Polls the woken waiters, until none is woken.
    fn settle(&mut self) {
        while let Some(index) = { self.woken.lock().unwrap().pop_front() } {
            self.poll(index);
        }
    }

    /// Moves the clock from one moment that someone waits for to the next, up to a moment.
    fn run_until(&mut self, end: Duration) {
        let end = Timestamp::ZERO.saturating_add(end);
        self.settle();
        while let Some(next) = self.clock.next_wake().filter(|next| *next <= end) {
            self.clock.set(next);
            self.settle();
        }
        self.clock.set(end);
    }

    /// Runs until there are no waiters.
    fn run(&mut self) {
        self.settle();
        while let Some(next) = self.clock.next_wake() {
            self.clock.set(next);
            self.settle();
        }
        assert!(self.tasks.iter().all(|task| task.acquire.is_none()), "someone waits for ever");
    }

    fn wakes(&self, index: usize) -> usize {
        self.tasks[index].signal.wakes.load(Ordering::Relaxed)
    }

    /// Returns who was admitted, in order.
    fn order(&self) -> Vec<usize> {
        self.admitted.iter().map(|(index, _)| *index).collect()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.woken.lock().unwrap().push_back(self.index);
    }
}

fn is_admitted(reservation: &Reservation) -> bool {
    let admitted = reservation.is_admitted();
    assert_eq!(reservation.delay(), admitted.then_some(Duration::ZERO), "no delay is left");
    admitted
}

/// Returns the time since the clock's start.
fn now(clock: &ManualClock) -> Duration {
    clock.now().saturating_since(Timestamp::ZERO)
}

fn keyed(policy: Policy) -> (Keyed, ManualClock) {
    crate::limiter_of(policy, |builder| builder.capacity(64))
}

/// Returns a limiter with room for one key.
fn single(policy: Policy) -> (Keyed, ManualClock) {
    crate::limiter_of(policy, |builder| builder.capacity(1))
}

/// Permits evenly, one at a time, at a rate per second.
fn evenly(rate: u64) -> Policy {
    Policy::gcra("test", Quota::per_second(rate).with_burst(1))
}

fn cost(permits: u64) -> Cost {
    Cost::new(permits).unwrap()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One policy of each kind, of which a cost of three fits.
fn every_kind() -> Vec<Policy> {
    every_kind_of(Quota::per_second(6))
}

/// The same under a quota.
fn every_kind_of(quota: Quota) -> Vec<Policy> {
    let slots =
        [Slots::strict(5), Slots::loose(5), Slots::strict(2).paced(), Slots::loose(2).paced()];
    let several = Policy::all_of(
        "several",
        [
            Policy::gcra("burst", Quota::per_second(4)),
            Policy::sliding_log("minute", Quota::per_minute(20)),
            Policy::fixed_window("hour", Quota::per_hour(30)),
        ],
    );
    let kinds = Algorithm::one_of_each().filter_map(|kind| match kind {
        Algorithm::LeakyQueue { .. } => Some(Algorithm::LeakyQueue { depth: 1_000 }),
        Algorithm::SubWindows(_) => None,
        other => Some(other),
    });
    let kinds = kinds.chain(slots.map(Algorithm::SubWindows));
    let single = kinds.map(|kind| Policy::new("test", kind, quota).unwrap());
    let tight = Policy::gcra("tight", quota.with_burst(3));
    single.chain([tight, several.unwrap()]).collect()
}
