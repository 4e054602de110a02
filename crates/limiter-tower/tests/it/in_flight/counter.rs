//! A small limiter of requests in flight, whose answers and permits a test controls.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use limiter_core::{Entry, HeldPermit, InFlightLimiter, InFlightPermit, LimiterId, Occupancy};
use tokio::sync::watch;

use super::*;

/// Counts in a map. Clones are one limiter.
#[derive(Clone)]
pub(super) struct Counter(Arc<Inner>);

struct Inner {
    name: &'static str,
    limit: AtomicU32,
    id: LimiterId,
    held: Mutex<HashMap<Key<'static>, u32>>,
    calls: Mutex<Vec<&'static str>>,
    /// What it is besides.
    is: Mutex<HashSet<Is>>,
    /// Whether the permits are lost.
    lost: watch::Sender<bool>,
    /// Whether the permits are lost, and nothing is woken: the process was stopped.
    was_stopped: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Is {
    /// Answers are not known at once.
    Slow,
    Failing,
    /// Answers are those of a local share.
    Local,
    Losable,
}

struct CounterPermit {
    counter: Counter,
    key: Key<'static>,
    lost: watch::Receiver<bool>,
}

impl Counter {
    pub(super) fn new(name: &'static str, limit: u32) -> Self {
        Self(Arc::new(Inner {
            name,
            limit: limit.into(),
            id: LimiterId::new(),
            held: Mutex::default(),
            calls: Mutex::default(),
            is: Mutex::default(),
            lost: watch::Sender::new(false),
            was_stopped: AtomicBool::default(),
        }))
    }

    /// Returns how many permits of all keys are held.
    pub(super) fn held(&self) -> u32 {
        self.0.held.lock().unwrap().values().sum()
    }

    /// Returns which operations were called since.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.calls.lock().unwrap())
    }

    fn with(self, what: Is) -> Self {
        self.0.is.lock().unwrap().insert(what);
        self
    }

    fn is(&self, what: Is) -> bool {
        self.0.is.lock().unwrap().contains(&what)
    }

    pub(super) fn slow(self) -> Self {
        self.with(Is::Slow)
    }

    pub(super) fn failing(self) -> Self {
        self.with(Is::Failing)
    }

    pub(super) fn local(self) -> Self {
        self.with(Is::Local)
    }

    pub(super) fn losable(self) -> Self {
        self.with(Is::Losable)
    }

    /// Loses all permits, and wakes nothing.
    pub(super) fn stop(&self) {
        self.0.was_stopped.store(true, Relaxed);
    }

    /// Loses all permits.
    pub(super) fn lose(&self) {
        self.0.lost.send_replace(true);
    }

    fn occupancy(&self, held: u32, limit: u32) -> Occupancy {
        let source = if self.is(Is::Local) { Source::Local } else { Source::State };
        Occupancy::new(held, limit).with_source(source)
    }

    fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        answer: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> LimiterFuture<T> {
        let counter = self.clone();
        let answer = move || {
            counter.0.calls.lock().unwrap().push(call);
            match counter.is(Is::Failing) {
                true => Err(Error::new(ErrorKind::Unavailable, "no store")),
                false => Ok(answer(&counter)),
            }
        };
        if !self.is(Is::Slow) {
            return LimiterFuture::ready(answer());
        }
        LimiterFuture::pending(async move {
            tokio::task::yield_now().await;
            answer()
        })
    }
}

impl InFlightLimiter for Counter {
    fn name(&self) -> &str {
        self.0.name
    }

    fn limit(&self) -> u32 {
        self.0.limit.load(Relaxed)
    }

    fn set_limit(&self, limit: u32) -> Result<(), Error> {
        self.0.limit.store(limit, Relaxed);
        Ok(())
    }

    fn id(&self) -> LimiterId {
        self.0.id
    }

    fn enter(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Entry> {
        let key = key.clone().into_owned();
        self.answer("enter", move |counter| {
            let mut all = counter.0.held.lock().unwrap();
            let held = all.entry(key.clone()).or_default();
            if *held >= limit {
                return Entry::refused(counter.occupancy(*held, limit));
            }
            *held += 1;
            let occupancy = counter.occupancy(*held, limit);
            let lost = counter.0.lost.subscribe();
            let held = CounterPermit { counter: counter.clone(), key, lost };
            Entry::admitted(InFlightPermit::new(held), occupancy)
        })
    }

    fn peek(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Occupancy> {
        let key = key.clone().into_owned();
        self.answer("peek", move |counter| {
            let held = counter.0.held.lock().unwrap().get(&key).copied().unwrap_or_default();
            counter.occupancy(held, limit)
        })
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let key = key.clone().into_owned();
        self.answer("reset", move |counter| {
            counter.0.held.lock().unwrap().remove(&key);
        })
    }
}

impl HeldPermit for CounterPermit {
    fn is_lost(&self) -> bool {
        *self.lost.borrow() || self.counter.0.was_stopped.load(Relaxed)
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut lost = self.lost.clone();
        Box::pin(async move { drop(lost.wait_for(|lost| *lost).await) })
    }

    fn can_be_lost(&self) -> bool {
        self.counter.is(Is::Losable)
    }
}

impl Drop for CounterPermit {
    fn drop(&mut self) {
        let mut all = self.counter.0.held.lock().unwrap();
        if let Some(held) = all.get_mut(&self.key) {
            *held = held.saturating_sub(1);
        }
    }
}
