//! One server, as routing, sentinels and connections see it.

use std::{error::Error, future::Future, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use fred::types::{Value, config::Server};
use tokio::runtime::Handle;

use super::{ScriptCall, faults::CallError};

/// A server, and what sends commands to it: a connection of `fred`, or in tests a server in the process.
pub(crate) trait Node: Send + Sync + 'static {
    /// Sends a command once and `within` that time, right after `first` if that is given, and returns what is `read` of
    /// its reply.
    fn run<T: Send>(
        &self,
        first: Option<&'static str>,
        command: Command,
        within: Duration,
        read: impl FnOnce(Value) -> Result<T, CallError> + Send,
    ) -> impl Future<Output = Result<T, CallError>> + Send;

    /// Waits for the connection.
    fn connected(&self) -> impl Future<Output = ()> + Send;

    fn is_connected(&self) -> bool;

    /// Notes that a reply does not have the shape that its script returns, and replaces the connection.
    fn replace_connection(&self);

    /// Returns another connection to the server, which is not made again when it is closed.
    fn without_reconnecting(&self) -> Self;
}

/// What connects to the servers of one address.
pub(crate) trait Connect: Clone + Send + Sync + 'static {
    type Node: Node;

    /// Starts to connect to a server. Errors contain `name`.
    fn connect(&self, server: &Server, name: &str) -> Self::Node;

    /// Returns the same for servers whose failures are noted apart.
    fn noting(&self, last_failure: LastFailure) -> Self;

    /// Why the servers of the address can't be reached.
    fn last_failure(&self) -> &Arc<LastFailure>;

    /// Runs the tasks of the connections.
    fn runtime(&self) -> &Handle;
}

/// A command and its arguments. A clone shares their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<Value>,
    /// Its reply is awaited for so long, or for the time within which it may be sent, if that is longer.
    pub(crate) silence: Duration,
}

impl Command {
    /// Returns a command whose reply is awaited for the time within which it may be sent.
    pub(crate) const fn new(name: &'static str, arguments: Vec<Value>) -> Self {
        Self { name, arguments, silence: Duration::ZERO }
    }
}

impl From<&ScriptCall> for Command {
    fn from(call: &ScriptCall) -> Self {
        let ((name, text), silence) = (call.command(), call.silence);
        let mut arguments = Vec::with_capacity(2 + call.keys.len() + call.arguments.len());
        arguments.extend([text.clone(), call.keys.len().to_string().into()].map(Value::Bytes));
        arguments.extend(call.keys.iter().chain(&call.arguments).cloned().map(Value::Bytes));
        Self { name, arguments, silence }
    }
}

/// The target of the log lines of connections, for filters.
pub(crate) const TARGET: &str = "limiter_redis";

/// The cause of an outage, while that lasts. Limiters log outages, and connections don't.
pub(crate) struct LastFailure {
    url: String,
    cause: ArcSwapOption<String>,
}

impl LastFailure {
    pub(crate) fn of(url: String) -> Self {
        Self { url, cause: ArcSwapOption::empty() }
    }

    /// Notes why the server can't be reached.
    pub(crate) fn set(&self, cause: &str) {
        self.cause.store(Some(Arc::new(cause.to_owned())));
    }

    /// Notes that the server has replied.
    pub(crate) fn clear(&self) {
        // Reads first, so that a call during normal operation writes nothing that threads share.
        if self.cause.load().is_some() {
            self.cause.store(None);
        }
    }

    /// Logs that a connection keeps credentials that were to be renewed.
    pub(crate) fn not_renewed(&self, error: &dyn Error) {
        tracing::warn!(target: TARGET, url = self.url, "the credentials are not renewed: {error}");
    }

    /// Returns the message for a command that has no connection.
    pub(crate) fn not_connected(&self) -> String {
        let url = &self.url;
        match &*self.cause.load() {
            Some(cause) => format!("not connected to {url}: {cause}"),
            None => format!("not connected to {url}"),
        }
    }
}
