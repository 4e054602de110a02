//! A client of a server in the process.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{Clock, Policy, Timestamp};
use limiter_double::{Reply, Server};
use limiter_redis::{Builder, CallError, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};
use tokio::time::Instant;

/// The server's time when a test begins, in microseconds.
const EPOCH: i64 = 1_702_080_000_000_000;

/// A client and its server, whose clock is that of the runtime, which is paused.
#[derive(Clone)]
pub(crate) struct Double {
    server: Arc<Mutex<Server>>,
    clock: RuntimeClock,
    calls: Arc<AtomicU64>,
    /// Whether a call may have keys in several slots, as on one server.
    spans_slots: bool,
}

/// The clock of the runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.0.elapsed())
    }
}

impl Double {
    pub(crate) fn new() -> Self {
        Self {
            server: Arc::default(),
            clock: RuntimeClock(Instant::now()),
            calls: Arc::default(),
            spans_slots: true,
        }
    }

    /// Returns a client that makes a call for each slot.
    pub(crate) fn by_slot() -> Self {
        Self { spans_slots: false, ..Self::new() }
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }

    pub(crate) const fn clock(&self) -> RuntimeClock {
        self.clock
    }

    /// Returns how many script calls were made.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Runs a command of somebody else.
    pub(crate) fn execute(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        let passed = i64::try_from(self.clock.0.elapsed().as_micros()).unwrap();
        self.server().execute(words, EPOCH + passed)
    }

    /// Returns a limiter that asks the server each time.
    pub(crate) fn limiter(&self, policy: &Policy) -> RedisLimiter<Self> {
        self.limiter_with(policy, |builder| builder.denial_cache(0))
    }

    pub(crate) fn limiter_with(
        &self,
        policy: &Policy,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> RedisLimiter<Self> {
        let builder = RedisLimiter::builder(policy.clone()).clock(self.clock);
        settings(builder).build_on(self.clone()).unwrap()
    }
}

impl ScriptClient for Double {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        self.calls.fetch_add(1, Relaxed);
        outcome(self.execute(&call.args()))
    }

    fn supports_batches(&self) -> bool {
        self.spans_slots
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }
}

/// Returns what a reply means to a client.
fn outcome(reply: Reply) -> Result<ScriptReply, CallError> {
    Ok(match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8(text).unwrap()),
        Reply::Nil => ScriptReply::Nil,
        Reply::Array(replies) => {
            ScriptReply::Array(replies.into_iter().map(outcome).collect::<Result<_, _>>()?)
        }
        Reply::Error(text) => return Err(CallError::from_error_reply("the double", &text)),
    })
}
