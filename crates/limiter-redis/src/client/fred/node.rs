//! One server: a connection that is replaced when it is lost or hangs.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClientState, Value, config::Server},
};
use tokio::{runtime::Handle, time::timeout};

use super::{
    command::{self, classify},
    start::{self, NodeSettings, PATIENCE, RECONNECT_DELAY, Started},
};
use crate::client::{
    faults::{CallError, Fault},
    node::{Command, Connect, LastFailure, Node},
};

/// How often the state of a new client is read while calls wait for it.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A connection to a server, which clones share.
///
/// The library reconnects when a connection is closed. It does not notice a connection that hangs while
/// there is traffic, and its task may end if its queue is full at that moment. Both are handled here.
#[derive(Clone)]
pub(crate) struct FredNode {
    /// The server's name in errors.
    name: String,
    settings: NodeSettings,
    current: Arc<Mutex<Current>>,
}

/// The client library's client.
struct Current {
    started: Started,
    /// Counts the clients, so that an outcome of an earlier one is not counted for this one.
    number: u64,
    since: Instant,
    /// Since when calls have found it without a connection, if it has none.
    lost_at: Option<Instant>,
    /// When the first call without a reply was made, if no call got a reply since.
    silent_since: Option<Instant>,
    /// Whether a PING was sent since then.
    is_pinged: bool,
    /// Whether the server replied that it is not the primary, or with something that is not a reply.
    must_be_replaced: bool,
}

impl FredNode {
    /// The name of a server if there is only one.
    pub(crate) const ONLY: &str = "Redis";

    /// Starts to connect. Errors contain `name`.
    pub(crate) fn start(settings: NodeSettings, name: String) -> Self {
        let current = Arc::new(Mutex::new(Current::start(&settings, 0)));
        Self { name, settings, current }
    }

    fn not_connected(&self) -> CallError {
        CallError::new(Fault::NotSent, self.settings.last_failure.not_connected())
    }

    /// Returns the current client, its number, and until when calls may wait for its connection. Returns
    /// `None` if its task ended less than [`RECONNECT_DELAY`] ago.
    fn client(&self) -> Option<(Client, u64, Instant)> {
        let mut current = self.lock();
        let silence = current.silent_since.map_or(Duration::ZERO, |since| since.elapsed());
        let is_silent = silence > PATIENCE;
        if silence > PATIENCE / 2 && !is_silent && !mem::replace(&mut current.is_pinged, true) {
            self.ping(&current);
        }
        if is_silent {
            self.settings.last_failure.set("no reply for a second");
        }
        let must_be_replaced = current.must_be_replaced || current.started.connection.is_finished();
        if is_silent || (must_be_replaced && current.since.elapsed() >= RECONNECT_DELAY) {
            *current = Current::start(&self.settings, current.number + 1);
        }
        // Its state may still be `Connected`.
        if current.started.connection.is_finished() {
            return None;
        }
        let now = Instant::now();
        let lost_at = (!current.is_connected()).then(|| current.lost_at.unwrap_or(now));
        current.lost_at = lost_at;
        let patient_until = lost_at.unwrap_or(now) + RECONNECT_DELAY;
        Some((current.started.client.clone(), current.number, patient_until))
    }

    /// Asks whether anything comes back at all, before a connection whose replies are late is replaced.
    fn ping(&self, current: &Current) {
        let (client, number) = (current.started.client.clone(), current.number);
        let node = self.clone();
        drop(self.settings.runtime.spawn(async move {
            let ping = Command::new("PING", Vec::new());
            let reply = command::send(&client, None, ping, PATIENCE / 2).await;
            // An error reply is a reply.
            let fault = reply.err().map(|error| classify(error, "").fault());
            let mut current = node.lock();
            if current.number == number && !matches!(fault, Some(Fault::NoReply | Fault::NotSent)) {
                current.has_replied();
            }
        }));
    }

    /// Notes the outcome of a call by client `number` that was made at `start`.
    fn note(&self, number: u64, start: Instant, fault: Option<Fault>) {
        let mut current = self.lock();
        if current.number != number {
            return;
        }
        match fault {
            Some(Fault::NoReply | Fault::NotSent) => {
                current.silent_since.get_or_insert(start);
                return;
            }
            Some(Fault::InvalidReply | Fault::NotPrimary) => current.must_be_replaced = true,
            _ => {}
        }
        current.has_replied();
        if !current.must_be_replaced {
            self.settings.last_failure.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // No operation under the lock can leave it half done.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for FredNode {
    /// Sends a command. An invalid reply replaces the connection.
    async fn run<T: Send>(
        &self,
        first: Option<&'static str>,
        command: Command,
        within: Duration,
        read: impl FnOnce(Value) -> Result<T, CallError> + Send,
    ) -> Result<T, CallError> {
        let start = Instant::now();
        let Some((client, number, patient_until)) = self.client() else {
            return Err(self.not_connected());
        };
        let silence = command.silence;
        let reply_within = loop {
            let left = within.saturating_sub(start.elapsed());
            let is_connected = client.state() == ClientState::Connected;
            if !is_connected && (left.is_zero() || Instant::now() >= patient_until) {
                return Err(self.not_connected());
            }
            if left.is_zero() {
                let message = format!("{}: no time was left to send the call", self.name);
                return Err(CallError::new(Fault::NoTime, message));
            }
            if is_connected {
                break left.max(silence.saturating_sub(start.elapsed()));
            }
            // The library would queue the command, and might send it after its caller has left.
            drop(timeout(left.min(POLL_INTERVAL), client.wait_for_connect()).await);
        };
        let result = command::send(&client, first, command, reply_within).await;
        let result = result.map_err(|error| classify(error, &self.name)).and_then(read);
        let fault = result.as_ref().err().map(CallError::fault);
        self.note(number, start, fault);
        result
    }

    async fn connected(&self) {
        let client = self.lock().started.client.clone();
        drop(client.wait_for_connect().await);
    }

    fn is_connected(&self) -> bool {
        self.lock().is_connected()
    }

    fn replace_connection(&self) {
        self.lock().must_be_replaced = true;
    }

    fn without_reconnecting(&self) -> Self {
        let settings = NodeSettings { reconnects: false, ..self.settings.clone() };
        Self::start(settings, self.name.clone())
    }
}

impl Connect for NodeSettings {
    type Node = FredNode;

    fn connect(&self, server: &Server, name: &str) -> FredNode {
        FredNode::start(self.at(server.clone()), name.to_owned())
    }

    fn noting(&self, last_failure: LastFailure) -> Self {
        Self { last_failure: Arc::new(last_failure), ..self.clone() }
    }

    fn last_failure(&self) -> &Arc<LastFailure> {
        &self.last_failure
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Current {
    fn start(settings: &NodeSettings, number: u64) -> Self {
        let now = Instant::now();
        Self {
            started: start::start(settings),
            number,
            since: now,
            lost_at: Some(now),
            silent_since: None,
            is_pinged: false,
            must_be_replaced: false,
        }
    }

    fn is_connected(&self) -> bool {
        self.started.client.state() == ClientState::Connected
    }

    fn has_replied(&mut self) {
        (self.silent_since, self.is_pinged) = (None, false);
    }
}
