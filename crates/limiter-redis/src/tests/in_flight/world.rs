//! A process whose clock moves only when the test moves it, and a server of twins.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures::{Stream, stream::FuturesUnordered};
use limiter_core::{Clock, Entry, Error, LimiterFuture, ManualClock, Timer};
use limiter_twins::{Reply, Server};

use crate::{
    CallError, Event, Fault, RedisInFlight, RedisInFlightBuilder, ScriptCall, ScriptClient,
    ScriptReply, client::slot, scripts,
};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Served,
    /// It is executed, and its reply arrives after a time.
    Late(Duration),
    LostRequest,
    LostReply,
    /// The server does not execute it.
    Refused(&'static str),
}

/// Decides what becomes of a call of a script.
type Decide = dyn FnMut(&str) -> Fate + Send;

/// A client whose calls are counted.
#[derive(Clone)]
pub(super) struct Client(Arc<Inner>);

struct Inner {
    clock: ManualClock,
    server: Mutex<Server>,
    spawned: Mutex<Vec<Task>>,
    calls: Mutex<Vec<(&'static str, usize)>>,
    fate: Mutex<Box<Decide>>,
    is_cluster: bool,
}

impl ScriptClient for Client {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let args = call.args();
        let digest = String::from_utf8_lossy(&call.script.digest).into_owned();
        let known = scripts::all().find(|(_, text)| scripts::digest(text) == digest);
        let (name, _) = known.expect("a known script");
        self.0.calls.lock().unwrap().push((name, call.keys.len()));
        let no_reply = || CallError::new(Fault::NoReply, "no reply in time");
        let fate = (self.0.fate.lock().unwrap())(name);
        match fate {
            Fate::Refused(error) => return Err(CallError::from_error_reply("the twins", error)),
            Fate::LostRequest => {
                self.sleep(within).await;
                return Err(no_reply());
            }
            _ => {}
        }
        if self.0.is_cluster && call.keys.iter().any(|key| slot(key) != slot(&call.keys[0])) {
            return Err(CallError::from_error_reply("the twins", "CROSSSLOT Keys"));
        }
        let reply = self.execute(&args);
        match fate {
            Fate::Late(by) if by < within => self.sleep(by).await,
            Fate::LostReply | Fate::Late(_) => {
                self.sleep(within).await;
                return Err(no_reply());
            }
            _ => {}
        }
        match reply {
            Reply::Error(error) => Err(CallError::from_error_reply("the twins", &error)),
            reply => Ok(read(reply)),
        }
    }

    fn supports_batches(&self) -> bool {
        !self.0.is_cluster
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawned.lock().unwrap().push(Box::pin(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let clock = self.0.clock.clone();
        let ends = clock.now().saturating_add(time);
        async move { clock.sleep_until(ends).await }
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(async move { work() });
    }
}

impl Client {
    fn execute(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        let micros = i64::try_from(self.0.clock.now().as_nanos() / 1_000).unwrap();
        self.0.server.lock().unwrap().execute(words, 1_700_000_000_000_000 + micros)
    }
}

fn read(reply: Reply) -> ScriptReply {
    match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Text(text) => ScriptReply::Text(String::from_utf8(text).unwrap()),
        Reply::Array(replies) => ScriptReply::Array(replies.into_iter().map(read).collect()),
        Reply::Nil | Reply::Error(_) => ScriptReply::Nil,
    }
}

/// Whether a task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A process, its tasks and its server.
pub(super) struct World {
    pub(super) client: Client,
    tasks: FuturesUnordered<Task>,
    events: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::of(false)
    }

    /// Returns a world whose server is a node of a cluster, for a client that knows that.
    pub(super) fn cluster() -> Self {
        Self::of(true)
    }

    fn of(is_cluster: bool) -> Self {
        let server = Server::new(scripts::all());
        let client = Client(Arc::new(Inner {
            clock: ManualClock::new(),
            server: Mutex::new(server),
            spawned: Mutex::default(),
            calls: Mutex::default(),
            fate: Mutex::new(Box::new(|_| Fate::Served)),
            is_cluster,
        }));
        // A clock at zero would hide what is subtracted from it.
        client.0.clock.advance(Duration::from_secs(100));
        for (_, text) in scripts::all() {
            client.execute(&["SCRIPT", "LOAD", text]);
        }
        Self { client, tasks: FuturesUnordered::new(), events: Arc::default() }
    }

    /// Returns a builder of a limiter that expires permits after 30 s.
    pub(super) fn builder(&self, limit: u32) -> RedisInFlightBuilder {
        let events = Arc::clone(&self.events);
        let report = move |event: &Event| events.lock().unwrap().push(event.name().to_owned());
        let builder = RedisInFlight::builder("test", limit).observer(report);
        builder.clock(self.client.0.clock.clone()).seed(self.number())
    }

    fn number(&self) -> u64 {
        Arc::strong_count(&self.client.0) as u64
    }

    /// Returns a limiter, as a process has it.
    pub(super) fn limiter(&self, limit: u32) -> RedisInFlight<Client> {
        self.builder(limit).build_on(self.client.clone()).unwrap()
    }

    /// Decides what becomes of calls, by the names of their scripts.
    pub(super) fn fate(&self, fate: impl FnMut(&str) -> Fate + Send + 'static) {
        *self.client.0.fate.lock().unwrap() = Box::new(fate);
    }

    pub(super) fn command(&self, words: &[&str]) -> Reply {
        self.client.execute(words)
    }

    /// Returns how many members a key has.
    pub(super) fn members(&self, limiter: &RedisInFlight<Client>, key: &str) -> i64 {
        let key = String::from_utf8(limiter.stored_key(key).unwrap()).unwrap();
        match self.command(&["ZCARD", &key]) {
            Reply::Integer(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the calls since the last time: the names of the scripts.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        mem::take(&mut *self.client.0.calls.lock().unwrap()).into_iter().map(|it| it.0).collect()
    }

    /// Returns the names of the events since the last time.
    pub(super) fn events(&self) -> Vec<String> {
        mem::take(&mut *self.events.lock().unwrap())
    }

    /// Runs all tasks until each waits.
    pub(super) fn run(&mut self) {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            woken.0.store(false, SeqCst);
            let spawned = mem::take(&mut *self.client.0.spawned.lock().unwrap());
            self.tasks.extend(spawned);
            let polled = Pin::new(&mut self.tasks).poll_next(&mut context);
            let has_spawned = !self.client.0.spawned.lock().unwrap().is_empty();
            let has_ended = matches!(polled, Poll::Ready(Some(())));
            if !has_ended && !has_spawned && !woken.0.load(SeqCst) {
                return;
            }
        }
    }

    /// Returns how many tasks have not ended.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Drops all tasks, as a runtime does that ends.
    pub(super) fn drop_tasks(&mut self) {
        self.tasks = FuturesUnordered::new();
    }

    /// Moves the clock in small steps.
    pub(super) fn advance(&mut self, by: Duration) {
        let step = Duration::from_millis(10);
        let mut left = by;
        while !left.is_zero() {
            self.jump(left.min(step));
            self.run();
            left = left.saturating_sub(step);
        }
    }

    /// Moves the clock of a process that is stopped meanwhile.
    pub(super) fn jump(&self, by: Duration) {
        self.client.0.clock.advance(by);
    }

    /// Starts an operation, and returns where its outcome will be.
    pub(super) fn start<T: Send + 'static>(&mut self, asked: LimiterFuture<T>) -> Asked<T> {
        let outcome = Arc::new(Mutex::new(None));
        let of_task = Arc::clone(&outcome);
        self.tasks.push(Box::pin(async move {
            let output = asked.await;
            *of_task.lock().unwrap() = Some(output);
        }));
        self.run();
        Asked(outcome)
    }

    /// Returns the outcome of an operation that the server answers at once.
    pub(super) fn ask<T: Send + 'static>(&mut self, asked: LimiterFuture<T>) -> Result<T, Error> {
        self.start(asked).take().expect("an answer")
    }

    /// Returns a permit.
    pub(super) fn enter(
        &mut self,
        limiter: &RedisInFlight<Client>,
        key: &str,
    ) -> limiter_core::InFlightPermit {
        self.admit(limiter.enter(key))
    }

    pub(super) fn admit(&mut self, entry: LimiterFuture<Entry>) -> limiter_core::InFlightPermit {
        self.ask(entry).unwrap().into_permit().expect("an admission")
    }
}

/// Where the outcome of an operation will be.
pub(super) struct Asked<T>(Arc<Mutex<Option<Result<T, Error>>>>);

impl<T> Asked<T> {
    pub(super) fn take(&self) -> Option<Result<T, Error>> {
        self.0.lock().unwrap().take()
    }
}
