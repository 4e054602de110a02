//! The client library `fred`, set up so that it neither waits long nor sends anything twice.

use std::{sync::Arc, time::Duration};

use fred::{
    bytes::Bytes,
    clients::Client,
    error::{Error as FredError, ErrorKind as FredErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        config::{
            Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, TcpConfig,
        },
    },
};
use limiter_core::{Error, ErrorKind};
use tokio::task::JoinHandle;

use crate::{
    client::{RunError, ScriptCall, ScriptName},
    connection::{OutageLog, PATIENCE},
};

/// How many commands may wait to be written. More fail at once.
const MAX_QUEUE: usize = 4_096;

/// Between two attempts to connect, in milliseconds.
const RECONNECT_DELAY_MS: u32 = 100;

/// How many characters of a reply an error quotes.
const MAX_QUOTED: usize = 100;

/// Returns the library's settings for `url`.
pub(crate) fn config(url: &str) -> Result<Config, Error> {
    let invalid = |why: &str| {
        let message = format!("the server address {:?}: {why}", redacted(url));
        Error::new(ErrorKind::InvalidSetting, message)
    };
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    // What is not supported, the library would accept: it would go on without encryption, or fail
    // every check that a cluster redirects.
    match scheme {
        "redis" | "valkey" => {}
        "rediss" | "valkeys" => return Err(invalid("TLS is not supported yet")),
        _ if scheme.starts_with("redis") || scheme.starts_with("valkey") => {
            return Err(invalid("only a single server is supported yet"));
        }
        _ => return Err(invalid("it must begin with redis:// or valkey://")),
    }
    let mut config = Config::from_url(url).map_err(|error| invalid(error.details()))?;
    // Goes on trying where the first attempt fails.
    config.fail_fast = false;
    Ok(config)
}

/// Starts to connect, and returns the client and the task that connects it and serves it.
pub(crate) fn start(
    config: Config,
    log: Arc<OutageLog>,
) -> (Client, JoinHandle<Result<(), FredError>>) {
    let performance =
        PerformanceConfig { default_command_timeout: PATIENCE, ..PerformanceConfig::default() };
    let connection = ConnectionConfig {
        connection_timeout: PATIENCE,
        internal_command_timeout: PATIENCE,
        max_command_attempts: 1,
        max_command_buffer_len: MAX_QUEUE,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    };
    // Without a last attempt.
    let reconnect = ReconnectPolicy::new_constant(0, RECONNECT_DELAY_MS);
    let client = Client::new(config, Some(performance), Some(connection), Some(reconnect));
    drop(client.on_error(move |(error, _)| {
        log.begins(error.details());
        async { Ok(()) }
    }));
    let task = client.connect();
    (client, task)
}

/// Whether a call showed that the server is there.
#[derive(Clone, Copy)]
pub(crate) enum Heard {
    Server,
    Silence,
}

/// Runs a script once.
pub(crate) async fn call(
    client: &Client,
    call: ScriptCall,
    within: Duration,
) -> (Result<Vec<i64>, RunError>, Heard) {
    // The library's own time-out, and not one around it: it marks a command whose time is over so
    // that it isn't sent any more.
    let options = Options { max_attempts: Some(1), timeout: Some(within), ..Options::default() };
    let (command, script) = match call.script {
        ScriptName::Digest(digest) => ("EVALSHA", digest),
        ScriptName::Source(source) => ("EVAL", source),
    };
    // A custom command, since options do not reach the library's own EVALSHA. The third argument
    // is the key.
    let command = CustomCommand::new_static(command, ClusterHash::Offset(2), false);
    let mut arguments: Vec<Value> = Vec::with_capacity(3 + call.arguments.len());
    arguments.push(Value::Bytes(Bytes::from_owner(Text(script))));
    arguments.push(Value::Integer(1));
    arguments.push(Value::Bytes(call.key.into()));
    arguments.extend(call.arguments.into_iter().map(Value::Integer));
    match client.with_options(&options).custom(command, arguments).await {
        Ok(reply) => (integers(&reply).map_err(RunError::Failed), Heard::Server),
        Err(error) => failure(error),
    }
}

/// Lends a script's text to the library, which then does not copy it.
struct Text(Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Returns the integers of a reply that consists of them.
fn integers(reply: &Value) -> Result<Vec<i64>, Error> {
    let integer = |value: &Value| match value {
        Value::Integer(integer) => Some(*integer),
        _ => None,
    };
    let integers = match reply {
        Value::Array(values) => values.iter().map(integer).collect(),
        value => integer(value).map(|integer| vec![integer]),
    };
    integers.ok_or_else(|| {
        let mut quoted = format!("{reply:?}");
        if let Some((end, _)) = quoted.char_indices().nth(MAX_QUOTED) {
            quoted.truncate(end);
            quoted.push_str("...");
        }
        let message =
            format!("the script replied with {quoted}: not an integer, nor an array of integers");
        Error::new(ErrorKind::Unexpected, message)
    })
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
fn failure(error: FredError) -> (Result<Vec<i64>, RunError>, Heard) {
    let details = error.details();
    // Redis 6.2 wraps what a command in a script met with: `ERR Error running script (call to
    // f_...): @user_script:40: -OOM command not allowed ...`.
    let inner = details
        .strip_prefix("ERR Error running script")
        .and_then(|rest| rest.split_once(": -").map(|(_, inner)| inner));
    let word = inner.unwrap_or(details).split_whitespace().next().unwrap_or_default();
    let (kind, heard) = match error.kind() {
        _ if word == "NOSCRIPT" => return (Err(RunError::NotCached), Heard::Server),
        _ if NOT_EXECUTED.contains(&word) => (ErrorKind::Unavailable, Heard::Server),
        _ if matches!(word, "ERR" | "WRONGTYPE") => (ErrorKind::Unexpected, Heard::Server),
        FredErrorKind::Protocol | FredErrorKind::Parse => (ErrorKind::Unexpected, Heard::Server),
        FredErrorKind::Auth
        | FredErrorKind::Backpressure
        | FredErrorKind::Config
        | FredErrorKind::Routing => (ErrorKind::Unavailable, Heard::Silence),
        // Timeout, IO and all that is not known to have stopped the command.
        _ => (ErrorKind::Undetermined, Heard::Silence),
    };
    let error = Error::new(kind, format!("Redis: {details}")).with_source(error);
    (Err(RunError::Failed(error)), heard)
}

/// Hides the user and the password.
pub(crate) fn redacted(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let (before, after) = (url.get(..scheme + 3), url.get(at..));
            format!("{}***{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => url.to_owned(),
    }
}
