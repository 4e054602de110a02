//! A client of `fred` that the caller brings.

use std::time::Duration;

use fred::{
    clients::{Client, Pool},
    interfaces::ClientLike,
    types::ClientState,
};
use limiter_core::{Error, ErrorKind};
use tokio::runtime::Handle;

use super::command::{self, classify};
use crate::client::{
    ScriptCall, ScriptClient, ScriptReply,
    circuit_breaker::CircuitBreaker,
    faults::{CallError, Fault},
    node::Command,
    threads,
};

/// A client or a pool of the library `fred` that the program has already.
///
/// It stays on the runtime on which it was connected, so checks may wait for a worker thread that another
/// task keeps busy. A connection that hangs is not replaced. [`connect`](crate::connect) has neither
/// drawback. Calls are not queued while the client is disconnected,
/// and are sent once, whatever its `max_command_attempts`.
///
/// ```no_run
/// use limiter_core::{Policy, Quota};
/// use limiter_redis::{FredClient, RedisLimiter, fred::prelude::*};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Builder::from_config(Config::from_url("redis://127.0.0.1:6379")?).build()?;
/// client.init().await?;
/// let policy = Policy::gcra("api", Quota::per_second(100));
/// let limiter = RedisLimiter::builder(policy).build_on(FredClient::of_client(client)?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FredClient {
    pool: Pool,
    runtime: Handle,
    /// Runs the timers of callers.
    timers: Handle,
    breaker: CircuitBreaker,
}

impl FredClient {
    /// Returns a client of limiters that uses `client`, on the current runtime.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the client is one for a cluster, because such a client returns replies
    /// to the wrong callers while slots are migrated, or if there is no Tokio runtime. [`ErrorKind::Unavailable`] if the
    /// system starts no thread.
    pub fn of_client(client: Client) -> Result<Self, Error> {
        let pool = Pool::from_clients(vec![client]).map_err(|error| invalid(error.details()))?;
        Self::of_pool(pool)
    }

    /// Returns a client of limiters that uses the clients of `pool` in turn, on the current runtime.
    ///
    /// # Errors
    ///
    /// As [`FredClient::of_client`].
    pub fn of_pool(pool: Pool) -> Result<Self, Error> {
        if pool.clients().iter().any(Client::is_clustered) {
            return Err(invalid(
                "it is for a cluster, and returns replies to the wrong callers while slots are \
                 migrated; use limiter_redis::connect with redis-cluster://",
            ));
        }
        let runtime = Handle::try_current()
            .map_err(|_| invalid("there is no Tokio runtime; call this from the client's"))?;
        Ok(Self { pool, runtime, timers: threads::timers()?, breaker: CircuitBreaker::default() })
    }
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("invalid fred client: {why}"))
}

impl ScriptClient for FredClient {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let client = self.pool.next_connected();
        if client.state() != ClientState::Connected {
            // The library would queue the command, and might send it after its caller has left.
            return Err(CallError::new(Fault::NotSent, "the fred client is not connected"));
        }
        let reply =
            command::send(client, None, Command::from(call), call.reply_within(within)).await;
        command::reply(reply.map_err(|error| classify(error, "Redis"))?)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        threads::sleep(&self.timers, time)
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.runtime.spawn_blocking(work));
    }

    fn breaker(&self) -> Option<CircuitBreaker> {
        Some(self.breaker.clone())
    }

    fn supports_batches(&self) -> bool {
        true
    }

    fn store(&self) -> Option<String> {
        let config = self.pool.next().client_config();
        Some(format!("{:?} {:?}", config.server, config.database))
    }
}
