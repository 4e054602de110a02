//! Captures the script call that a limiter sends, without a server.
//!
//! The scripts are private to `limiter-redis`, so the bench reads them from the calls.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use limiter_core::{Decision, Error, Policy};
use limiter_redis::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};
use tokio::runtime::Handle;

use crate::fred_client::WITHIN;

/// A limiter whose calls are recorded, and not sent.
pub(crate) struct Captured {
    limiter: RedisLimiter<Recorder>,
    recorder: Recorder,
}

/// One call, as a server receives it.
pub(crate) struct Call {
    pub(crate) source: String,
    /// Those of one subject.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Records the last call, and returns the reply that was set.
#[derive(Clone)]
struct Recorder {
    runtime: Handle,
    exchange: Arc<Mutex<Exchange>>,
}

#[derive(Default)]
struct Exchange {
    call: Option<Call>,
    /// Without a reply, the recorder does not have the script, so that the limiter sends its source.
    reply: Option<ScriptReply>,
}

impl Captured {
    /// # Errors
    ///
    /// As [`limiter_redis::Builder::build_on`].
    pub(crate) fn new(runtime: &Handle, policy: &Policy, prefix: &str) -> Result<Self, Error> {
        let recorder = Recorder { runtime: runtime.clone(), exchange: Arc::default() };
        let limiter = RedisLimiter::builder(policy.clone())
            .prefix(prefix)
            .deadline(WITHIN)
            // Each decision is computed from its own reply.
            .denial_cache(0)
            .build_on(recorder.clone())?;
        Ok(Self { limiter, recorder })
    }

    /// Returns the call that a check of `key` sends.
    pub(crate) async fn call(&self, key: &str) -> Result<Call> {
        self.recorder.exchange(|exchange| exchange.reply = None);
        // An error, because there is no reply.
        drop(self.limiter.check(key).await);
        self.recorder.exchange(|exchange| exchange.call.take()).context("no call was sent")
    }

    /// Returns the decision that the limiter reads from a reply.
    pub(crate) async fn decision(&self, reply: &ScriptReply) -> Result<Decision> {
        self.recorder.exchange(|exchange| exchange.reply = Some(reply.clone()));
        self.limiter.check("key").await.with_context(|| format!("the reply {reply:?}"))
    }
}

impl Call {
    /// Returns the store's keys of each of other subjects, by the store's keys of `subject` in this call.
    pub(crate) fn keys_of<'a>(
        &self,
        subject: &str,
        others: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        let parts = self.keys.iter().map(|key| {
            let key = str::from_utf8(key)?;
            let parts = key.split_once(subject);
            parts.with_context(|| format!("the key {key:?} does not contain {subject:?}"))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let keys = others.into_iter().map(|other| {
            let keys =
                parts.iter().map(|(before, after)| [*before, other.as_str(), *after].concat());
            keys.map(String::into_bytes).collect()
        });
        Ok(keys.collect())
    }
}

impl Recorder {
    fn exchange<T>(&self, access: impl FnOnce(&mut Exchange) -> T) -> T {
        access(&mut self.exchange.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ScriptClient for Recorder {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        self.exchange(|exchange| {
            let no_script = || CallError::new(Fault::NoScript, "the recorder has no script");
            let words = call.args();
            let [name, source, _, rest @ ..] = words.as_slice() else {
                return Err(no_script());
            };
            if **name == *b"EVALSHA" {
                return exchange.reply.clone().ok_or_else(no_script);
            }
            exchange.call = Some(Call {
                source: String::from_utf8_lossy(source).into_owned(),
                keys: call.keys.iter().map(|key| key.to_vec()).collect(),
                arguments: rest.iter().skip(call.keys.len()).map(|it| it.to_vec()).collect(),
            });
            Err(no_script())
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        // A caller may poll it outside of the runtime.
        let _context = self.runtime.enter();
        tokio::time::sleep(time)
    }
}
