//! `fred` with settings by which it neither waits long nor sends a command twice.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::Error as FredError,
    interfaces::{ClientLike, EventInterface},
    types::{
        ClientState, Value,
        config::{
            Config, ConnectionConfig, CredentialProvider, PerformanceConfig, ReconnectPolicy,
            Server, ServerConfig, TcpConfig,
        },
    },
};
use tokio::{
    runtime::Handle,
    sync::broadcast::{Receiver, error::RecvError},
    task::JoinHandle,
    time::timeout,
};

use super::command::{send, why_unreachable};
use crate::client::{
    credentials::Provider,
    node::{Command, LastFailure},
};

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

/// Sent right before another command, so that a node of a cluster executes that for a slot that it imports.
pub(crate) const ASKING: &str = "ASKING";

/// What the connections to servers are made with.
#[derive(Clone)]
pub(crate) struct NodeSettings {
    /// Runs the library's tasks.
    pub(crate) runtime: Handle,
    /// Those of the library.
    pub(crate) config: Config,
    /// The name of each connection on the server.
    pub(crate) name: Arc<str>,
    pub(crate) provider: Option<Arc<Provider>>,
    /// Whether the library makes a connection again when it is closed.
    pub(crate) reconnects: bool,
    pub(crate) last_failure: Arc<LastFailure>,
}

impl NodeSettings {
    /// Returns the settings of connections to `server`.
    pub(crate) fn at(&self, server: Server) -> Self {
        let config = Config { server: ServerConfig::Centralized { server }, ..self.config.clone() };
        Self { config, ..self.clone() }
    }
}

/// The library's client, and the tasks that connect and attend to it, which end with it.
pub(crate) struct Started {
    pub(crate) client: Client,
    pub(crate) connection: JoinHandle<Result<(), FredError>>,
    attendance: JoinHandle<()>,
}

impl Drop for Started {
    fn drop(&mut self) {
        // This also closes the connection and drops its queue.
        self.connection.abort();
        self.attendance.abort();
    }
}

/// Starts to connect.
pub(crate) fn start(settings: &NodeSettings) -> Started {
    let _context = settings.runtime.enter();
    let mut config = settings.config.clone();
    config.credential_provider =
        settings.provider.clone().map(|provider| provider as Arc<dyn CredentialProvider>);
    let encrypted = config.uses_tls();
    let handshake = if encrypted { HANDSHAKE } else { Duration::ZERO };
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
    let policy = settings.reconnects.then(reconnect_policy);
    // Keeps trying if the first attempt fails.
    config.fail_fast = !settings.reconnects;
    let client = Client::new(config, Some(performance), Some(connection), policy);
    if settings.reconnects {
        let last_failure = Arc::clone(&settings.last_failure);
        drop(client.on_error(move |(error, _)| {
            last_failure.set(&why_unreachable(&error, encrypted));
            async { Ok(()) }
        }));
    }
    let attendance = attend(client.clone(), client.reconnect_rx(), settings.clone());
    let attendance = settings.runtime.spawn(attendance);
    let connection = client.connect();
    Started { client, connection, attendance }
}

/// Names each connection that the client makes, and gives those that exist new credentials in time.
///
/// The library would renew credentials in a task that keeps the client for ever (`fred` 10.1.0,
/// `spawn_credential_refresh`).
async fn attend(client: Client, mut connected: Receiver<Server>, settings: NodeSettings) {
    let NodeSettings { name, provider, last_failure, .. } = settings;
    let renewal = provider.as_ref().map_or(Duration::MAX, |provider| provider.renewal);
    let run = async |name: &'static str, arguments: Vec<Value>| {
        send(&client, None, Command::new(name, arguments), PATIENCE).await
    };
    loop {
        match (timeout(renewal, connected.recv()).await, &provider) {
            (Ok(Err(RecvError::Closed)), _) => return,
            (Ok(_), _) | (Err(_), None) => {
                // A user who may not name connections is served as well.
                drop(run("CLIENT", vec!["SETNAME".into(), (&*name).into()]).await);
            }
            (Err(_), Some(provider)) => {
                let renewed = async {
                    let (username, password) = provider.fetch(None).await?;
                    let pair = [username, password].map(Option::unwrap_or_default);
                    run("AUTH", pair.map(Value::from).to_vec()).await
                };
                if let Err(error) = renewed.await
                    && client.state() == ClientState::Connected
                {
                    last_failure.not_renewed(&error);
                }
            }
        }
    }
}

/// Retries for ever: first after a millisecond, then with longer pauses, up to ten times a second.
fn reconnect_policy() -> ReconnectPolicy {
    let longest = u32::try_from(RECONNECT_DELAY.as_millis()).unwrap_or(u32::MAX);
    let mut policy = ReconnectPolicy::new_exponential(0, 1, longest, 5);
    policy.set_jitter(0);
    policy
}
