//! A client of limiters that uses a connection of the library `redis`.

use std::time::Duration;

use limiter_core::{Error, ErrorKind};
use limiter_redis::{CallError, Fault, ScriptCall, ScriptClient, ScriptReply};
use redis::{Cmd, ErrorKind as RedisErrorKind, RedisError, Value, aio::ConnectionLike};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

/// A connection of the library `redis`.
///
/// It stays on the runtime on which it was made, so checks may wait for a worker thread that another task
/// keeps busy. A connection that hangs is not replaced. [`limiter_redis::connect`] has neither drawback.
#[derive(Clone, Debug)]
pub struct RedisClient<C> {
    connection: C,
    runtime: Handle,
}

impl<C> RedisClient<C> {
    /// Returns a client of limiters that uses `connection`, on the current runtime: a
    /// [`ConnectionManager`](redis::aio::ConnectionManager), which reconnects and sends no command twice, or a
    /// [`MultiplexedConnection`](redis::aio::MultiplexedConnection), which does not reconnect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if there is no Tokio runtime.
    pub fn of(connection: C) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            let message =
                "invalid redis connection: there is no Tokio runtime; call this from its own";
            Error::new(ErrorKind::InvalidSetting, message)
        })?;
        Ok(Self { connection, runtime })
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ScriptClient for RedisClient<C> {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let mut command = Cmd::new();
        for word in call.args() {
            command.arg(&*word);
        }
        let mut connection = self.connection.clone();
        let reply = connection.req_packed_command(&command);
        // The library does not send a command whose future was dropped.
        match timeout(call.reply_within(within), reply).await {
            Ok(reply) => reply.map_err(classify).and_then(read),
            Err(_) => Err(CallError::new(Fault::NoReply, format!("no reply within {within:?}"))),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        // A caller may poll it outside of the runtime.
        let _context = self.runtime.enter();
        sleep(time)
    }

    fn supports_batches(&self) -> bool {
        true
    }
}

/// Classifies an error reply by its first word, and any other error by its kind.
fn classify(error: RedisError) -> CallError {
    match error.code() {
        // Not as the source, because an error reply may quote the arguments of `AUTH`.
        Some(code) => {
            let reply = format!("{code} {}", error.detail().unwrap_or_default());
            CallError::from_error_reply("Redis", &reply)
        }
        None => CallError::new(fault_of(&error), format!("Redis: {error}")).with_source(error),
    }
}

fn fault_of(error: &RedisError) -> Fault {
    match error.kind() {
        RedisErrorKind::Parse | RedisErrorKind::UnexpectedReturnType => Fault::InvalidReply,
        // While it connects.
        RedisErrorKind::AuthenticationFailed
        | RedisErrorKind::InvalidClientConfig
        | RedisErrorKind::RESP3NotSupported
        | RedisErrorKind::Client => Fault::NotSent,
        RedisErrorKind::Io if error.is_connection_refusal() => Fault::NotSent,
        // A time-out, a lost connection, and everything that may have happened after the write.
        _ => Fault::NoReply,
    }
}

/// Returns a reply of integers, texts, null, and arrays of them.
fn read(value: Value) -> Result<ScriptReply, CallError> {
    Ok(match value {
        Value::Int(integer) => ScriptReply::Integer(integer),
        Value::Nil => ScriptReply::Nil,
        Value::Okay => ScriptReply::Text("OK".to_owned()),
        Value::SimpleString(text) => ScriptReply::Text(text),
        Value::BulkString(bytes) => ScriptReply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Array(values) => {
            ScriptReply::Array(values.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => return Err(classify(error.into())),
        other => {
            let message = format!("the script replied {other:?}: expected integers, texts or null");
            return Err(CallError::new(Fault::InvalidReply, message));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn errors_of_the_library_are_classified_by_their_kind() {
        for (error, fault) in [
            (RedisError::from((RedisErrorKind::Parse, "why")), Fault::InvalidReply),
            (RedisError::from((RedisErrorKind::AuthenticationFailed, "why")), Fault::NotSent),
            (io::Error::from(io::ErrorKind::ConnectionRefused).into(), Fault::NotSent),
            (io::Error::from(io::ErrorKind::BrokenPipe).into(), Fault::NoReply),
            (io::Error::from(io::ErrorKind::TimedOut).into(), Fault::NoReply),
        ] {
            assert_eq!(classify(error.clone()).fault(), fault, "{error}");
        }
    }

    #[test]
    fn integers_texts_null_and_arrays_are_replies() {
        let text = Value::BulkString(b"a".into());
        let value = Value::Array(vec![Value::Int(1), Value::Nil, Value::Okay, text]);
        let texts = ["OK", "a"].map(|text| ScriptReply::Text(text.to_owned()));
        let replies =
            [ScriptReply::Integer(1), ScriptReply::Nil].into_iter().chain(texts).collect();
        assert_eq!(read(value).unwrap(), ScriptReply::Array(replies));
        assert_eq!(read(Value::Double(0.5)).unwrap_err().fault(), Fault::InvalidReply);
    }
}
