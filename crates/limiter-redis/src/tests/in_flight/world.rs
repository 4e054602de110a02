//! A process with limits on requests in flight, and what a test does to it.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::{Entry, Error, InFlightPermit, LimiterFuture};
use limiter_double::Reply;

pub(super) use crate::tests::client::Fate;
use crate::{
    Event, RedisInFlight, RedisInFlightBuilder,
    tests::{
        client::Client,
        store::{Asked, Store},
    },
};

/// A process, its tasks and its server.
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    events: Arc<Mutex<Vec<String>>>,
    /// How many limiters were built.
    limiters: Mutex<u64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(Store::new())
    }

    /// Returns a world with a limiter of one request in flight, and the permit of one.
    pub(super) fn with_permit() -> (Self, RedisInFlight<Client>, InFlightPermit) {
        let world = Self::new();
        let limiter = world.limiter(1);
        let permit = world.enter(&limiter, "alice");
        (world, limiter, permit)
    }

    pub(super) fn cluster() -> Self {
        Self::of(Store::on_cluster())
    }

    fn of(store: Arc<Store>) -> Self {
        Self { store, events: Arc::default(), limiters: Mutex::default() }
    }

    pub(super) fn client(&self) -> Client {
        self.store.client.clone()
    }

    /// Returns a builder of a limiter that expires permits after 30 s.
    pub(super) fn builder(&self, limit: u32) -> RedisInFlightBuilder {
        let events = Arc::clone(&self.events);
        let report = move |event: &Event| events.lock().unwrap().push(event.name().to_owned());
        let builder = RedisInFlight::builder("test", limit).observer(report);
        let mut limiters = self.limiters.lock().unwrap();
        *limiters += 1;
        builder.clock(self.store.client.clock()).seed(*limiters)
    }

    /// Returns a limiter, as a process has it.
    pub(crate) fn limiter(&self, limit: u32) -> RedisInFlight<Client> {
        self.builder(limit).build_on(self.client()).unwrap()
    }

    /// Decides what becomes of calls, by the names of their scripts.
    pub(super) fn fate(&self, fate: impl FnMut(&str) -> Fate + Send + 'static) {
        self.store.client.set_fate(fate);
    }

    pub(super) fn command(&self, words: &[&str]) -> Reply {
        self.store.client.execute(words)
    }

    /// Returns how many members a key has.
    pub(crate) fn members(&self, limiter: &RedisInFlight<Client>, key: &str) -> i64 {
        let key = String::from_utf8(limiter.stored_key(key).unwrap()).unwrap();
        match self.command(&["ZCARD", &key]) {
            Reply::Integer(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Decides what becomes of the calls of one script, while others are served.
    pub(super) fn fate_of(&self, script: &'static str, fate: Fate) {
        self.fate(move |name| if name == script { fate } else { Fate::Served });
    }

    /// Returns the calls since the last time: the names of the scripts.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.store.client.sent().into_iter().map(|sent| sent.script).collect()
    }

    /// Returns the names of the events since the last time.
    pub(super) fn events(&self) -> Vec<String> {
        mem::take(&mut *self.events.lock().unwrap())
    }

    /// Runs all tasks until each waits.
    pub(super) fn run(&self) {
        self.store.run();
    }

    /// Moves the clock in small steps.
    pub(crate) fn advance(&self, by: Duration) {
        let step = Duration::from_millis(10);
        let mut left = by;
        while !left.is_zero() {
            self.store.pass(left.min(step));
            left = left.saturating_sub(step);
        }
    }

    /// Moves the clock of a process that is stopped meanwhile.
    pub(super) fn jump(&self, by: Duration) {
        self.store.client.pass(by);
    }

    /// Starts an operation, and returns where its outcome will be.
    pub(super) fn start<T: Send + 'static>(&self, asked: LimiterFuture<T>) -> Asked<T> {
        self.store.start(asked)
    }

    /// Returns the outcome of an operation that the server answers at once.
    pub(super) fn ask<T>(&self, asked: LimiterFuture<T>) -> Result<T, Error> {
        self.store.block_on(asked)
    }

    /// Returns a permit.
    pub(crate) fn enter(&self, limiter: &RedisInFlight<Client>, key: &str) -> InFlightPermit {
        self.admit(limiter.enter(key))
    }

    pub(super) fn admit(&self, entry: LimiterFuture<Entry>) -> InFlightPermit {
        self.ask(entry).unwrap().into_permit().expect("an admission")
    }
}
