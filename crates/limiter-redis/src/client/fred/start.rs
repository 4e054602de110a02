//! `fred` with settings by which it neither waits long nor sends a command twice.

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

use super::reply::why_unreachable;
use crate::client::{command::Command, outage_log::OutageLog};

/// How long a connection may return nothing before it is replaced.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The longest time between two attempts to connect. Also how long calls wait for a connection that was just
/// lost, or is just made, if their deadline permits.
pub(crate) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// How long a server may take to accept a connection, and to reply to the first commands. The kernel
/// sends a lost SYN again after a second; a new attempt reaches the server sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The additional time for a TLS handshake: one or two round trips, and a signature, which takes longer
/// when all clients reconnect at the same time.
const HANDSHAKE: Duration = Duration::from_millis(200);

/// How many commands may wait to be written. Others fail at once.
const MAX_QUEUE: usize = 4_096;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Any command. The library reconnects when it is closed.
    Serving,
    /// Pairs of `ASKING` and a command. The library does not reconnect, because it would then send the
    /// pairs that waited, after their callers have left.
    Asking,
}

/// Sent right before another command, so that a node of a cluster executes that for a slot that it imports.
pub(crate) const ASKING: &str = "ASKING";

/// Sent right before another command, so that a replica in a cluster executes that if it only reads.
pub(crate) const READONLY: &str = "READONLY";

/// Starts to connect, and returns the client and the task that connects it and serves it.
pub(crate) fn start(
    mut config: Config,
    purpose: Purpose,
    attempt: u64,
    log: Arc<OutageLog>,
) -> (Client, JoinHandle<Result<(), FredError>>) {
    let encrypted = config.uses_tls();
    let handshake = if encrypted { HANDSHAKE } else { Duration::ZERO };
    if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
        // The library uses the first one that replies, which may be the one that is partitioned.
        let first = usize::try_from(attempt).unwrap_or_default() % hosts.len().max(1);
        hosts.rotate_left(first);
    }
    let performance =
        PerformanceConfig { default_command_timeout: PATIENCE, ..PerformanceConfig::default() };
    let connection = ConnectionConfig {
        connection_timeout: CONNECT_TIMEOUT + handshake,
        internal_command_timeout: CONNECT_TIMEOUT,
        max_command_attempts: 1,
        max_command_buffer_len: MAX_QUEUE,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    };
    let reconnect = (purpose == Purpose::Serving).then(reconnect_policy);
    config.fail_fast = reconnect.is_none();
    let client = Client::new(config, Some(performance), Some(connection), reconnect);
    if purpose == Purpose::Serving {
        drop(client.on_error(move |(error, _)| {
            log.begins(&why_unreachable(&error, encrypted));
            async { Ok(()) }
        }));
    }
    let task = client.connect();
    (client, task)
}

/// Retries for ever: first after a millisecond, then with longer pauses, up to ten times a second.
fn reconnect_policy() -> ReconnectPolicy {
    let longest = u32::try_from(RECONNECT_DELAY.as_millis()).unwrap_or(u32::MAX);
    let mut policy = ReconnectPolicy::new_exponential(0, 1, longest, 5);
    policy.set_jitter(0);
    policy
}

/// Sends a command once, right after `first` on the same connection, and returns its reply.
pub(crate) async fn send(
    client: &Client,
    first: Option<&'static str>,
    Command { name, arguments }: Command,
    within: Duration,
) -> Result<Value, FredError> {
    // The library's own time-out, because it does not send a command any more whose time is over.
    let options = Options { max_attempts: Some(1), timeout: Some(within), ..Options::default() };
    // Custom commands, because the library ignores the options for its own EVALSHA. The slot does not
    // matter, because each client has one server.
    let custom = |name| CustomCommand::new_static(name, ClusterHash::Random, false);
    let Some(first) = first else {
        return client.with_options(&options).custom(custom(name), arguments).await;
    };
    let pipeline = client.pipeline().with_options(&options);
    let _: Value = pipeline.custom(custom(first), Vec::<Value>::new()).await?;
    let _: Value = pipeline.custom(custom(name), arguments).await?;
    pipeline.last().await
}
