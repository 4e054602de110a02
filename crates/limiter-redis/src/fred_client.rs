//! The client library `fred`, set up so that it neither waits long nor sends anything twice.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::Error as FredError,
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        config::{
            Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, ServerConfig,
            TcpConfig,
        },
    },
};
use tokio::task::JoinHandle;

use crate::{
    command::Command,
    log::OutageLog,
    node::{PATIENCE, RECONNECT_DELAY},
};

/// How long a server may take to accept a connection, and to answer what is asked first. The system
/// itself sends a lost first packet again only after a second; to begin anew is sooner, and finds a
/// server sooner that was cut off.
const CONNECTS_WITHIN: Duration = Duration::from_millis(500);

/// How much longer it may take to agree on encryption: there and back once or twice more, and the
/// work of a signature, which others wait for too when all connect anew.
const HANDSHAKE: Duration = Duration::from_millis(200);

/// How many commands may wait to be written. More fail at once.
const MAX_QUEUE: usize = 4_096;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Any command. It is made again when it is closed.
    Serving,
    /// Pairs of `ASKING` and a command. It is not made again by the library, which would then send
    /// the pairs that waited, however late it is.
    Asking,
}

/// What is sent right before a command, on the same connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum First {
    /// Nothing.
    Nothing,
    /// `ASKING`, which has a node of a cluster execute the next command for a slot that it is
    /// taking over.
    Asking,
    /// `READONLY`, which has a replica in a cluster execute what its primary would.
    ReadOnly,
}

/// Starts to connect, and returns the client and the task that connects it and serves it.
pub(crate) fn start(
    mut config: Config,
    purpose: Purpose,
    attempt: u64,
    log: Arc<OutageLog>,
) -> (Client, JoinHandle<Result<(), FredError>>) {
    let handshake = if config.uses_tls() { HANDSHAKE } else { Duration::ZERO };
    if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
        // The library trusts the first that answers, which may be the one that is cut off.
        let first = usize::try_from(attempt).unwrap_or_default() % hosts.len().max(1);
        hosts.rotate_left(first);
    }
    let performance =
        PerformanceConfig { default_command_timeout: PATIENCE, ..PerformanceConfig::default() };
    let connection = ConnectionConfig {
        connection_timeout: CONNECTS_WITHIN + handshake,
        internal_command_timeout: CONNECTS_WITHIN,
        max_command_attempts: 1,
        max_command_buffer_len: MAX_QUEUE,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    };
    let reconnect = match purpose {
        Purpose::Serving => Some(reconnect_policy()),
        Purpose::Asking => None,
    };
    config.fail_fast = reconnect.is_none();
    let client = Client::new(config, Some(performance), Some(connection), reconnect);
    if purpose == Purpose::Serving {
        drop(client.on_error(move |(error, _)| {
            log.begins(error.details());
            async { Ok(()) }
        }));
    }
    let task = client.connect();
    (client, task)
}

/// Tries for ever: after a millisecond, which the library also waits before the first time, then
/// more seldom, down to ten times a second.
fn reconnect_policy() -> ReconnectPolicy {
    let longest = u32::try_from(RECONNECT_DELAY.as_millis()).unwrap_or(u32::MAX);
    let mut policy = ReconnectPolicy::new_exponential(0, 1, longest, 5);
    policy.set_jitter(0);
    policy
}

/// Sends a command once, and returns its reply.
pub(crate) async fn send(
    client: &Client,
    first: First,
    command: Command,
    within: Duration,
) -> Result<Value, FredError> {
    // The library's own time-out, and not one around it: it marks a command whose time is over so
    // that it isn't sent any more.
    let options = Options { max_attempts: Some(1), timeout: Some(within), ..Options::default() };
    // A custom command, since options do not reach the library's own EVALSHA.
    let Command { name, arguments } = command;
    match first {
        First::Nothing => client.with_options(&options).custom(custom(name), arguments).await,
        First::Asking => pair(client, &options, "ASKING", name, arguments).await,
        First::ReadOnly => pair(client, &options, "READONLY", name, arguments).await,
    }
}

/// Sends two commands with nothing between them, and returns the reply to the second.
async fn pair(
    client: &Client,
    options: &Options,
    first: &'static str,
    name: &'static str,
    arguments: Vec<Value>,
) -> Result<Value, FredError> {
    let pipeline = client.pipeline().with_options(options);
    let _: Value = pipeline.custom(custom(first), Vec::<Value>::new()).await?;
    let _: Value = pipeline.custom(custom(name), arguments).await?;
    pipeline.last().await
}

/// To one server, where its slot does not matter.
fn custom(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::Random, false)
}
