//! The client library `fred`, set up so that an outage can neither hang nor charge twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind as FredErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        config::{
            Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, TcpConfig,
            UnresponsiveConfig,
        },
    },
};
use limiter_core::{Error, ErrorKind};

use crate::client::{RunError, ScriptCall, ScriptClient, ScriptName};

/// How many commands may wait for a connection. More fail at once.
const MAX_QUEUE: usize = 4_096;

/// How long a connection may take to be made, or to answer while there is no traffic.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two attempts to reconnect, in milliseconds.
const RECONNECT_DELAY_MS: u32 = 100;

/// Returns a client of the server at `url`, such as `redis://127.0.0.1:6379`, once it is connected,
/// or after a second without.
///
/// The server need not be there: until it is, and whenever it is gone, commands fail and the
/// client goes on trying to connect. Commands are never sent twice, no more than 4,096 of them
/// wait for a connection, and none waits longer than a second. That the server can't be reached,
/// and why, is logged once when it begins, at the level WARN, and so is its end.
///
/// # Errors
///
/// [`ErrorKind::InvalidSetting`] if `url` can't be understood or asks for TLS, which is not
/// supported yet, or if there is no Tokio runtime. A server that is not there is no error.
pub async fn connect(url: &str) -> Result<Client, Error> {
    let invalid = |why: &str| {
        let message = format!("the server address {:?}: {why}", redacted(url));
        Error::new(ErrorKind::InvalidSetting, message)
    };
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme.split(['-', '+']).next() {
        Some("redis" | "valkey") => {}
        // The client library would go on without encryption.
        Some("rediss" | "valkeys") => return Err(invalid("TLS is not supported yet")),
        _ => return Err(invalid("it must begin with redis:// or valkey://")),
    }
    let mut config = Config::from_url(url).map_err(|error| invalid(error.details()))?;
    config.fail_fast = false;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(invalid("there is no Tokio runtime to connect on"));
    }
    let performance = PerformanceConfig {
        default_command_timeout: CONNECTION_TIMEOUT,
        ..PerformanceConfig::default()
    };
    let connection = ConnectionConfig {
        connection_timeout: CONNECTION_TIMEOUT,
        internal_command_timeout: CONNECTION_TIMEOUT,
        max_command_attempts: 1,
        max_command_buffer_len: MAX_QUEUE,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(CONNECTION_TIMEOUT),
            interval: CONNECTION_TIMEOUT / 4,
        },
        ..ConnectionConfig::default()
    };
    // Without a last attempt.
    let reconnect = ReconnectPolicy::new_constant(0, RECONNECT_DELAY_MS);
    let client = Client::new(config, Some(performance), Some(connection), Some(reconnect));
    report_outages(&client, redacted(url));
    // The task that connects goes on by itself.
    drop(client.connect());
    let connected = client.wait_for_connect();
    drop(tokio::time::timeout(CONNECTION_TIMEOUT, connected).await);
    Ok(client)
}

/// Logs why the server can't be reached, once an outage, and when it can again.
fn report_outages(client: &Client, url: String) {
    let failing = Arc::new(AtomicBool::new(false));
    drop(client.on_error({
        let (failing, url) = (Arc::clone(&failing), url.clone());
        move |(error, _)| {
            if !failing.swap(true, Ordering::Relaxed) {
                tracing::warn!(url, "can't reach Redis: {}", error.details());
            }
            async { Ok(()) }
        }
    }));
    drop(client.on_reconnect(move |_| {
        if failing.swap(false, Ordering::Relaxed) {
            tracing::warn!(url, "reached Redis again");
        }
        async { Ok(()) }
    }));
}

impl ScriptClient for Client {
    async fn run(&self, call: ScriptCall, within: Duration) -> Result<i64, RunError> {
        // The library's own time-out, and not one around it: it marks a command whose time is over
        // so that it isn't sent any more.
        let options =
            Options { max_attempts: Some(1), timeout: Some(within), ..Options::default() };
        let (command, script) = match call.script {
            ScriptName::Digest(digest) => ("EVALSHA", digest),
            ScriptName::Source(source) => ("EVAL", source),
        };
        // A custom command, since options do not reach the library's own EVALSHA. The third
        // argument is the key.
        let command = CustomCommand::new_static(command, ClusterHash::Offset(2), false);
        let mut arguments: Vec<Value> = Vec::with_capacity(3 + call.arguments.len());
        arguments.push(Value::from_static_str(script));
        arguments.push(Value::Integer(1));
        arguments.push(Value::Bytes(call.key.into()));
        // Below 2^53, as the call says.
        arguments.extend(call.arguments.map(|argument| Value::Integer(argument.cast_signed())));
        match self.with_options(&options).custom(command, arguments).await {
            Ok(Value::Integer(reply)) => Ok(reply),
            Ok(reply) => Err(RunError::Failed(Error::new(
                ErrorKind::Unexpected,
                format!("the script replied with {reply:?}: not an integer"),
            ))),
            Err(error) if error.details().starts_with("NOSCRIPT") => Err(RunError::NotCached),
            Err(error) => Err(RunError::Failed(failure(error))),
        }
    }
}

/// Errors by which a server says that it executed nothing.
const NOT_EXECUTED: [&str; 12] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
];

/// Says what an error means: the server's own by its first word, the library's by its kind.
fn failure(error: FredError) -> Error {
    let word = error.details().split_whitespace().next().unwrap_or_default();
    let kind = match error.kind() {
        _ if NOT_EXECUTED.contains(&word) => ErrorKind::Unavailable,
        _ if matches!(word, "ERR" | "WRONGTYPE") => ErrorKind::Unexpected,
        FredErrorKind::Protocol | FredErrorKind::Parse => ErrorKind::Unexpected,
        FredErrorKind::Auth
        | FredErrorKind::Backpressure
        | FredErrorKind::Config
        | FredErrorKind::Routing => ErrorKind::Unavailable,
        // Timeout, IO and all that is not known to have stopped the command.
        _ => ErrorKind::Undetermined,
    };
    Error::new(kind, format!("Redis: {}", error.details())).with_source(error)
}

/// Hides the user and the password.
fn redacted(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let (before, after) = (url.get(..scheme + 3), url.get(at..));
            format!("{}***{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => url.to_owned(),
    }
}
