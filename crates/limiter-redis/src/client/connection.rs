//! Connections to whatever serves the keys: one server, one that sentinels name, or a cluster.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::types::Value;
use limiter_core::{Error, ErrorKind};
use tokio::{task::JoinError, time::sleep};

use super::{
    cluster::member::Member,
    fred::{command, node::FredNode, start::PATIENCE},
    link::{Link, Topology},
    node::{Command, Node as _},
    options::ConnectOptions,
    threads,
};
use crate::client::{
    ScriptCall, ScriptClient, ScriptReply,
    circuit_breaker::CircuitBreaker,
    faults::{CallError, Fault},
};

/// The time between two pings of a server that is required.
const PING_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Calls each command of the scripts once.
const PROBE: &str = include_str!("probe.lua");

/// Its keys, with the default prefix, in one slot. They are gone when the script ends.
const PROBED: [&str; 2] = ["limiter:{probe}:hash", "limiter:{probe}:list"];

/// Returns a connection to the server at `url`, after it is made or after one second.
///
/// | address | meaning |
/// |---|---|
/// | `redis://user:password@host:6379/0` | one server; only the host is required |
/// | `redis-sentinel://host:26379?sentinelServiceName=main&node=host2:26379` | the primary that the sentinels name |
/// | `redis-cluster://host:6379?node=host2:6379` | a cluster, by any of its nodes |
/// | `redis+unix:///run/redis.sock?db=0` | one server on this machine, with the feature `unix-sockets`; `unix` is an alias |
///
/// `rediss`, with the feature `tls`, encrypts, and `valkey` is an alias of `redis`. A server's
/// certificate must be valid for the host in the address, or the host that the sentinels or the cluster
/// name. Characters such as `/`, `#`, `?` and `@` in a user or password are percent-encoded.
///
/// The server need not be reachable: until it is, checks fail, and the connection is retried ten times a
/// second, or about every half second if nothing comes back at all. A connection without any reply for
/// one second is replaced. The limiters on it log an outage, and its end.
///
/// A connection runs on a thread of its own, so no check waits for a worker of the caller's runtime that is busy. Clones
/// share it: make one for all limiters on a server, and each limiter by [`Builder::build_on`](crate::Builder::build_on)
/// with a clone, so that they share its thread, its socket, its batches and its circuit breaker. It is closed, and the
/// thread ends, when the last clone and the last limiter on it are dropped. Log lines come from that thread, so a
/// subscriber has to be the global one to receive them.
///
/// A process that forks must make its connections and limiters after the fork, because the child has no thread
/// that runs those from before.
///
/// In a cluster each node has a connection of its own, so that a node that fails affects its own keys
/// only. A call that a node redirects was not executed, and is sent to the node that it names; so slots
/// can be migrated while they are in use.
///
/// # Errors
///
/// [`ErrorKind::InvalidSetting`] if `url` is invalid or needs a feature; [`ErrorKind::Unavailable`] if the system starts no
/// thread. An unreachable server is not an error, unless the options of [`connect_with`]
/// [require a connection](ConnectOptions::with_required_connection).
pub async fn connect(url: &str) -> Result<Connection, Error> {
    connect_with(url, &ConnectOptions::new()).await
}

/// Returns a connection as [`connect`] does, with options that an address can't contain.
///
/// ```no_run
/// use limiter_redis::{ConnectOptions, connect_with};
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let options = ConnectOptions::new().with_name("orders");
/// let client = connect_with("redis-cluster://127.0.0.1:7000", &options).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`connect`], and [`ErrorKind::InvalidSetting`] if an option does not fit the address. [`ErrorKind::Unavailable`] if the
/// server does not reply in time and the options [require it](ConnectOptions::with_required_connection).
pub async fn connect_with(url: &str, options: &ConnectOptions) -> Result<Connection, Error> {
    let link = Link::to(url, options)?;
    if options.required_within.is_none() {
        link.connected(PATIENCE).await;
    }
    let connection = Connection(Arc::new(link));
    if let Some(within) = options.required_within {
        connection.require(within).await.map_err(|error| {
            let message = format!(
                "no required connection within {within:?}: {error}; start the server, give its user the \
                 commands of limiters, or connect without `with_required_connection`"
            );
            Error::new(ErrorKind::Unavailable, message).with_source(Arc::new(error))
        })?;
    }
    Ok(connection)
}

/// A connection to Redis or Valkey that clones share. See [`connect`].
#[derive(Clone)]
pub struct Connection(Arc<Link>);

/// One of the servers that serve keys, for commands that limits don't need.
#[doc(hidden)]
pub struct Server {
    name: Arc<str>,
    node: Arc<FredNode>,
}

impl Connection {
    /// Returns whether there is a connection to the server, in a cluster to every known primary. Asks no
    /// server: see [`Connection::ping`].
    ///
    /// ```no_run
    /// # fn example(connection: &limiter_redis::Connection) -> u16 {
    /// // Of an endpoint that says whether the service is ready.
    /// if connection.is_connected() { 200 } else { 503 }
    /// # }
    /// ```
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.0.topology {
            Topology::Single(node) => node.is_connected(),
            Topology::Sentinels(sentinels) => sentinels.is_connected(),
            Topology::Cluster(cluster) => {
                let primaries = cluster.primaries();
                !primaries.is_empty() && primaries.iter().all(|member| member.node.is_connected())
            }
        }
    }

    /// Sends `PING` to the server, in a cluster to every known primary, and waits for the replies for
    /// `within` at most.
    ///
    /// # Errors
    ///
    /// The first [`CallError`] of a server. Its fault is [`Fault::NotSent`] if no server is known.
    pub async fn ping(&self, within: Duration) -> Result<(), CallError> {
        let servers = self.servers();
        if servers.is_empty() {
            let why = match &self.0.topology {
                Topology::Sentinels(sentinels) => sentinels.not_found(),
                Topology::Cluster(cluster) => cluster.not_connected(),
                Topology::Single(_) => String::new(),
            };
            return Err(CallError::new(Fault::NotSent, format!("no server is known: {why}")));
        }
        let pings = servers.into_iter().map(|server| {
            self.0
                .driver
                .runtime()
                .spawn(async move { server.send("PING", &[""; 0], within).await })
        });
        for ping in pings.collect::<Vec<_>>() {
            ping.await.map_err(runtime_ended)??;
        }
        Ok(())
    }

    /// Waits until the servers reply, and let limiters call their commands; or returns the last error after `within`.
    async fn require(&self, within: Duration) -> Result<(), CallError> {
        let (connection, start) = (self.clone(), Instant::now());
        let left = move || within.saturating_sub(start.elapsed());
        let pings = self.0.driver.runtime().spawn(async move {
            let mut last = None;
            loop {
                connection.0.connected(left()).await;
                let tried = match connection.ping(left()).await {
                    Ok(()) if left().is_zero() => {
                        Err(CallError::new(Fault::NoTime, "no time was left to try the scripts"))
                    }
                    Ok(()) => connection.probe(left()).await,
                    failed => failed,
                };
                match tried {
                    Err(error) if !left().is_zero() => {
                        last = Some(error);
                        sleep(PING_AGAIN_AFTER.min(left())).await;
                    }
                    // At the end there may be no time to ask.
                    result => return result.map_err(|error| last.unwrap_or(error)),
                }
            }
        });
        pings.await.map_err(runtime_ended)?
    }

    /// Runs a script that calls what the scripts of limiters call, and returns its error.
    ///
    /// A user may have keys with another prefix alone. Such a user may run scripts, and nothing else is tried.
    async fn probe(&self, within: Duration) -> Result<(), CallError> {
        let keys = PROBED.map(|key| key.as_bytes().into()).into();
        let reply = self.run(&ScriptCall::new(PROBE, keys), within).await;
        match reply {
            Ok(ScriptReply::Text(text)) if text == "OK" => Ok(()),
            Ok(ScriptReply::Text(words)) => Err(CallError::of_command("Redis", &words)),
            Ok(reply) => Err(CallError::invalid_reply(&reply)),
            // The command itself is checked before its keys.
            Err(error) if error.to_string().contains("permissions to access") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the servers that serve keys: in a cluster, the known primaries.
    #[doc(hidden)]
    #[must_use]
    pub fn servers(&self) -> Vec<Server> {
        let only = |node| Server { name: Arc::clone(&self.0.url), node };
        match &self.0.topology {
            Topology::Single(node) => vec![only(Arc::clone(node))],
            Topology::Sentinels(sentinels) => sentinels.primary().map(only).into_iter().collect(),
            Topology::Cluster(cluster) => {
                let server = |member: &Arc<Member<FredNode>>| Server {
                    name: Arc::clone(&member.name),
                    node: Arc::clone(&member.node),
                };
                cluster.primaries().iter().map(server).collect()
            }
        }
    }
}

fn runtime_ended(_: JoinError) -> CallError {
    CallError::new(Fault::NotSent, "the runtime of the connection has ended")
}

impl Server {
    /// Returns its address, without a password.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a command once, and returns its reply.
    ///
    /// # Errors
    ///
    /// As [`ScriptClient::run`].
    pub async fn send(
        &self,
        name: &'static str,
        arguments: &[impl AsRef<[u8]>],
        within: Duration,
    ) -> Result<ScriptReply, CallError> {
        let bytes = |argument: &_| Value::Bytes(Bytes::copy_from_slice(AsRef::as_ref(argument)));
        let arguments = arguments.iter().map(bytes).collect();
        self.node.run(None, Command::new(name, arguments), within, command::reply).await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ScriptClient for Connection {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let node = match &self.0.topology {
            Topology::Single(node) => Arc::clone(node),
            Topology::Sentinels(sentinels) => sentinels
                .primary()
                .ok_or_else(|| CallError::new(Fault::NotSent, sentinels.not_found()))?,
            Topology::Cluster(cluster) => return cluster.run(call, within).await,
        };
        node.run(None, Command::from(call), within, command::reply).await.map_err(|error| {
            if error.redirect.is_none() {
                return error;
            }
            let hint = "the server is a node of a cluster; use redis-cluster://";
            CallError::new(error.fault(), format!("{error}: {hint}")).with_source(error)
        })
    }

    fn breaker(&self) -> Option<CircuitBreaker> {
        Some(self.0.breaker.clone())
    }

    fn replace_connection(&self, key: &[u8]) {
        match &self.0.topology {
            Topology::Single(node) => node.replace_connection(),
            Topology::Sentinels(sentinels) => {
                sentinels.primary().iter().for_each(|primary| primary.replace_connection());
            }
            Topology::Cluster(cluster) => {
                cluster.member_of(key).iter().for_each(|it| it.node.replace_connection());
            }
        }
    }

    fn supports_batches(&self) -> bool {
        !matches!(self.0.topology, Topology::Cluster(_))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.driver.runtime().spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        threads::sleep(&self.0.timers, time)
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.0.driver.runtime().spawn_blocking(work));
    }

    fn store(&self) -> Option<String> {
        Some(self.0.store.clone())
    }

    fn server_of(&self, key: &[u8]) -> Option<(usize, Arc<str>)> {
        let Topology::Cluster(cluster) = &self.0.topology else { return None };
        let member = cluster.member_of(key)?;
        Some((member.number, Arc::clone(&member.name)))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Link { url, breaker, .. } = &*self.0;
        let mut shown = f.debug_struct("Connection");
        shown.field("url", url).field("breaker", breaker).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::PROBE;
    use crate::scripts::SCRIPT_COMMANDS;

    #[test]
    fn each_command_of_scripts_is_tried() {
        for command in SCRIPT_COMMANDS {
            assert!(PROBE.contains(&format!("{{ '{command}'")), "{command}");
        }
    }
}
