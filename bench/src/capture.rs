//! What a limiter sends, learned from the limiter itself: its scripts are its own affair.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use anyhow::{Context as _, Result};
use limiter_core::{Cost, Decision, Error, Policy};
use limiter_redis::{RedisLimiter, RunError, ScriptCall, ScriptClient, ScriptName, ScriptReply};
use tokio::runtime::{Builder, Runtime};

/// A limiter whose calls are looked at, and not sent.
pub(crate) struct Captured {
    limiter: RedisLimiter<Recorder>,
    recorder: Recorder,
    decisions: u64,
}

/// One call, as a server is sent it.
pub(crate) struct Call {
    pub(crate) source: String,
    pub(crate) key: Vec<u8>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Keeps the last call, and gives the reply that it was told to give.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Exchange>>);

#[derive(Default)]
struct Exchange {
    call: Option<Call>,
    reply: Option<Vec<i64>>,
}

impl Captured {
    /// # Errors
    ///
    /// As [`RedisLimiter::new`].
    pub(crate) fn new(policy: &Policy, prefix: &str) -> Result<Self, Error> {
        let recorder = Recorder::default();
        let limiter = RedisLimiter::new(recorder.clone(), policy.clone())?.with_prefix(prefix)?;
        Ok(Self { limiter, recorder, decisions: 0 })
    }

    /// Returns what is sent for a check of `key`.
    pub(crate) fn call(&self, key: &str) -> Result<Call> {
        self.recorder.exchange(|exchange| exchange.reply = None);
        // An error, since there is no reply; so each call is one of a limiter of its own, which has not
        // yet failed too often to ask.
        let limiter = self.limiter.clone().with_denial_cache(0)?;
        drop(at_once(limiter.try_acquire(key, Cost::ONE)));
        self.recorder.exchange(|exchange| exchange.call.take()).context("nothing was sent")
    }

    /// Returns what the limiter makes of a reply.
    pub(crate) fn decision(&mut self, reply: &[i64]) -> Result<Decision> {
        self.recorder.exchange(|exchange| exchange.reply = Some(reply.to_vec()));
        // Another key each time: what is remembered of one is not to decide about the next.
        self.decisions += 1;
        let decision = at_once(self.limiter.try_acquire(self.decisions, Cost::ONE));
        Ok(decision.context("the check was not answered at once")??)
    }
}

impl Recorder {
    fn exchange<T>(&self, look: impl FnOnce(&mut Exchange) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ScriptClient for Recorder {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, RunError> {
        self.exchange(|exchange| {
            // Asked for by its digest, the limiter tells the source.
            let ScriptName::Source(source) = &call.script else {
                let reply = exchange.reply.as_ref().ok_or(RunError::NotCached)?;
                let integers = reply.iter().copied().map(ScriptReply::Integer);
                return Ok(ScriptReply::Array(integers.collect()));
            };
            let numbers = call.arguments.iter().map(|number| number.to_string().into_bytes());
            let arguments = [call.quotas.to_vec()].into_iter().chain(numbers).collect();
            let (source, key) = (source.to_string(), call.keys.concat());
            exchange.call = Some(Call { source, key, arguments });
            Err(RunError::NotCached)
        })
    }
}

/// Answers are awaited on a runtime, if only for a moment.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime without a driver"));

fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let _runtime = RUNTIME.enter();
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
