//! The interface to a client library: one script call. And its implementation over `fred`.

mod address;
pub(crate) mod breaker;
pub(crate) mod circuit_breaker;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod faults;
pub(crate) mod fred;
mod link;
pub(crate) mod node;
pub(crate) mod options;
mod sentinels;
pub(crate) mod threads;
#[cfg(feature = "tls")]
mod tls;

use std::{borrow::Cow, future::Future, slice, sync::Arc, thread, time::Duration};

use ::fred::util::redis_keyslot;
use bytes::Bytes;

use self::{circuit_breaker::CircuitBreaker, faults::CallError};
use crate::sync;

/// Runs scripts on a Redis or Valkey server.
///
/// [`Connection`](crate::Connection) implements it over the library `fred`, and
/// `FredClient`, with the feature `fred-client`, over a client of `fred` that the program has already. To use another
/// library, implement it for a type whose clones share their connections: send
/// [`ScriptCall::args`], return the reply, and classify what goes wrong by [`Fault`](crate::Fault).
///
/// ```
/// use std::time::Duration;
/// use limiter_core::{Policy, Quota};
/// use limiter_redis::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};
/// use tokio::time::{sleep, timeout};
///
/// /// A client for tests, which replies as `serve` does.
/// #[derive(Clone)]
/// struct Fake {
///     serve: fn(&[u8]) -> Result<ScriptReply, String>,
/// }
///
/// impl ScriptClient for Fake {
///     async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
///         let args = call.args();
///         let reply = async { (self.serve)(&args[0]) };
///         match timeout(call.reply_within(within), reply).await {
///             Ok(Ok(reply)) => Ok(reply),
///             Ok(Err(text)) => Err(CallError::from_error_reply("the fake", &text)),
///             Err(_) => Err(CallError::new(Fault::NoReply, "the fake did not reply in time")),
///         }
///     }
///
///     fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
///         drop(tokio::spawn(task));
///     }
///
///     fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
///         sleep(time)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), limiter_core::Error> {
/// // It does not have the script at first. Then it replies that one of the ten permits is charged.
/// let serve: fn(&[u8]) -> _ = |name| match name {
///     b"EVALSHA" => Err("NOSCRIPT No matching script".to_owned()),
///     _ => Ok(ScriptReply::Integer(6_000_000)),
/// };
/// let policy = Policy::gcra("api", Quota::per_minute(10));
/// let client = Fake { serve };
/// let limiter = RedisLimiter::builder(policy).deadline(Duration::from_secs(5)).build_on(client)?;
/// assert_eq!(limiter.check("alice").await?.remaining(), 9);
/// # Ok(())
/// # }
/// ```
pub trait ScriptClient: Clone + Send + Sync + 'static {
    /// Runs the script once, and returns its reply.
    ///
    /// Its caller waits for `within`, which is not zero: the call must not be sent later. The future waits for the
    /// reply for [`ScriptCall::reply_within`], which may be longer, so that the [`CircuitBreaker`] learns of a reply
    /// that is too late for its caller. The call must not be sent again after it may have been executed, because that
    /// could charge twice.
    ///
    /// # Errors
    ///
    /// A [`CallError`] whose [`Fault`](crate::Fault) says whether the call may have been executed. For a
    /// server's error reply, [`CallError::from_error_reply`] returns it.
    fn run(
        &self,
        call: &ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<ScriptReply, CallError>> + Send;

    /// Returns whether a call may have the keys of several subjects: not in a cluster, where they are in several
    /// slots.
    ///
    /// The default is `false`: each check is a call of its own.
    fn supports_batches(&self) -> bool {
        false
    }

    /// Runs a task: one that makes a call, or that collects calls in a batch.
    ///
    /// A runtime that also runs other tasks should have short ones only: a call may wait for a worker
    /// thread that another task keeps busy.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Returns a future that is ready after `time`: for the deadlines of callers, which poll it, and for pauses between
    /// calls.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static;

    /// Runs work that may block, such as the [observer](crate::Builder::observer): by default on a thread of its own,
    /// which ends with the work.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        // If the system starts no thread, the work is dropped.
        drop(thread::Builder::new().spawn(work));
    }

    /// Returns the circuit breaker that all limiters on clones of this client share, and with it their calls: clients of
    /// other servers need another one. By default each limiter has one of its own.
    fn breaker(&self) -> Option<CircuitBreaker> {
        None
    }

    /// Notes that the reply to a call for the key does not have the shape that the script returns. It may belong to
    /// another call, so the connection is to be replaced. By default this does nothing.
    fn replace_connection(&self, key: &[u8]) {
        let _ = key;
    }

    /// Returns the server that has the key: a number, for its circuit breaker, and a name for errors and
    /// log lines, such as `10.0.0.1:6379`. Returns `None` if there is only one server or the server is not
    /// known, which is the default.
    ///
    /// A server keeps its number while it is known. From 31 on, servers share circuit breakers.
    fn server_of(&self, key: &[u8]) -> Option<(usize, Arc<str>)> {
        let _ = key;
        None
    }

    /// Returns a text that all clients of the same store have in common, or `None` if the store is not known.
    #[doc(hidden)]
    fn store(&self) -> Option<String> {
        None
    }
}

/// One script call: `EVALSHA`, or `EVAL` if the server does not have the script.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    pub(crate) script: Script,
    pub(crate) form: Form,
    /// For how long the circuit breaker waits for a reply.
    pub(crate) silence: Duration,
    /// The number of the [server](ScriptClient::server_of) that has the keys, if that is known.
    pub(crate) server: Option<usize>,
    /// `KEYS`: those of one subject, which are in one slot of a cluster, unless the client
    /// [takes several](ScriptClient::supports_batches).
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub arguments: Vec<Bytes>,
}

/// Returns the digest by which servers know a script: SHA-1 in hexadecimal digits.
#[must_use]
pub fn digest(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// A script, as it is called and as it is sent. A clone shares its texts.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) digest: Bytes,
    pub(crate) source: Bytes,
}

impl Script {
    pub(crate) fn new(source: String) -> Self {
        Self { digest: digest(&source).into(), source: source.into() }
    }
}

/// The command of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Evalsha,
    Eval,
}

impl ScriptCall {
    /// Returns a call of the script with this source for `keys`, without arguments, which may write.
    #[must_use]
    pub fn new(source: &str, keys: Vec<Bytes>) -> Self {
        let call = Self::of(&Script::new(source.to_owned()), Vec::new());
        Self { form: Form::Eval, keys, ..call }
    }

    /// Returns a call by the script's digest, to which the keys are added.
    pub(crate) fn of(script: &Script, arguments: Vec<Bytes>) -> Self {
        let (form, silence, server) = (Form::Evalsha, Duration::ZERO, None);
        Self { script: script.clone(), form, silence, server, keys: Vec::new(), arguments }
    }

    /// Returns for how long the reply is awaited, of a call that may be sent `within` some time: as long, or until the
    /// server has been silent for long enough to open the [`CircuitBreaker`].
    #[must_use]
    pub fn reply_within(&self, within: Duration) -> Duration {
        within.max(self.silence)
    }

    /// Returns the command: `EVALSHA` or `EVAL`, and its arguments.
    #[must_use]
    pub fn args(&self) -> Vec<Bytes> {
        let (name, text) = self.command();
        let name = Bytes::from_static(name.as_bytes());
        let head = [name, text.clone(), self.keys.len().to_string().into()];
        head.into_iter().chain(self.keys.iter().chain(&self.arguments).cloned()).collect()
    }

    /// Returns the command's name, and the script's digest or its source.
    pub(crate) const fn command(&self) -> (&'static str, &Bytes) {
        match self.form {
            Form::Evalsha => ("EVALSHA", &self.script.digest),
            Form::Eval => ("EVAL", &self.script.source),
        }
    }
}

/// The reply of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptReply {
    /// An integer.
    Integer(i64),
    /// A bulk string or a simple string. Bytes that are not UTF-8 may be replaced.
    Text(String),
    /// An array.
    Array(Vec<ScriptReply>),
    /// No value: a null bulk string, a null array or, in RESP3, null. No script of this library replies so.
    Nil,
}

impl ScriptReply {
    /// Returns the integers of a reply that is an integer or an array of them.
    pub(crate) fn integers(&self) -> Option<Cow<'_, [i64]>> {
        let integer = |reply: &Self| match reply {
            Self::Integer(integer) => Some(*integer),
            _ => None,
        };
        match self {
            Self::Integer(integer) => Some(slice::from_ref(integer).into()),
            Self::Text(_) | Self::Nil => None,
            Self::Array(replies) => {
                replies.iter().map(integer).collect::<Option<_>>().map(Cow::Owned)
            }
        }
    }
}

/// Returns the slot of a cluster that has a key.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    redis_keyslot(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_integer_is_a_list_of_one() {
        use ScriptReply::{Array, Integer, Nil, Text};

        assert_eq!(*Integer(-3).integers().unwrap(), [-3]);
        assert_eq!(*Array(vec![Integer(1), Integer(2)]).integers().unwrap(), [1, 2]);
        assert!(Array(vec![]).integers().unwrap().is_empty());
        assert_eq!(Text("OK".to_owned()).integers(), None);
        assert_eq!(Array(vec![Integer(1), Nil]).integers(), None);
        assert_eq!(Array(vec![Integer(1), Array(vec![])]).integers(), None);
    }
}
