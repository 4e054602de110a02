//! A connection of the library `redis` that the caller brings.

mod reply;

use std::{fmt, time::Duration};

use limiter_core::{Error, ErrorKind};
use redis::{
    Cmd,
    aio::{ConnectionLike, ConnectionManager, MultiplexedConnection},
};
use tokio::{runtime::Handle, time::timeout};

use super::{ScriptCall, ScriptClient, ScriptReply};
use crate::call::faults::{CallError, Fault};

/// A connection of the library `redis`, with the feature `redis`.
///
/// It stays on the runtime on which it was made, so checks may wait for a worker thread that another task
/// keeps busy. A connection that hangs is not replaced, and neither is a [`MultiplexedConnection`] that was
/// closed. [`connect`](crate::connect) has none of these drawbacks.
///
/// ```no_run
/// use limiter_core::{Policy, Quota};
/// use limiter_redis::{RedisClient, RedisLimiter, redis};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = redis::Client::open("redis://127.0.0.1:6379")?;
/// let manager = client.get_connection_manager().await?;
/// let policy = Policy::gcra("api", Quota::per_second(100));
/// let limiter = RedisLimiter::builder(RedisClient::of_manager(manager)?, policy).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisClient {
    connection: Connection,
    runtime: Handle,
}

#[derive(Clone)]
enum Connection {
    Manager(ConnectionManager),
    Multiplexed(MultiplexedConnection),
}

impl RedisClient {
    /// Returns a client of limiters that uses `manager`, on the current runtime. The manager reconnects, and
    /// sends no command twice.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if there is no Tokio runtime.
    pub fn of_manager(manager: ConnectionManager) -> Result<Self, Error> {
        Self::of(Connection::Manager(manager))
    }

    /// Returns a client of limiters that uses `connection`, on the current runtime. It does not reconnect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if there is no Tokio runtime.
    pub fn of_multiplexed(connection: MultiplexedConnection) -> Result<Self, Error> {
        Self::of(Connection::Multiplexed(connection))
    }

    fn of(connection: Connection) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            let message =
                "invalid redis connection: there is no Tokio runtime; call this from its own";
            Error::new(ErrorKind::InvalidSetting, message)
        })?;
        Ok(Self { connection, runtime })
    }
}

impl ScriptClient for RedisClient {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let mut command = Cmd::new();
        for word in call.words() {
            command.arg(&*word);
        }
        let mut connection = self.connection.clone();
        let reply = match &mut connection {
            Connection::Manager(manager) => manager.req_packed_command(&command),
            Connection::Multiplexed(connection) => connection.req_packed_command(&command),
        };
        // The library does not send a command whose future was dropped.
        match timeout(within, reply).await {
            Ok(reply) => reply.map_err(reply::classify).and_then(reply::read),
            Err(_) => Err(CallError::new(Fault::NoReply, format!("no reply within {within:?}"))),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.runtime.spawn_blocking(work));
    }

    fn takes_many_keys(&self) -> bool {
        true
    }
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient").finish_non_exhaustive()
    }
}
