//! One server, or one that sentinels name: a client that is made anew whenever it is lost, or
//! hangs.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        ClientState, Value,
        config::{Config, ServerConfig},
    },
};
use tokio::task::JoinHandle;

use crate::{
    command::Command,
    fred_client::{self, First, Purpose},
    log::OutageLog,
    no_reply::{Heard, NoReply},
};

/// How long a connection may take to answer anything at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Between two attempts to connect; also how long a new client is waited for, by those whose
/// deadline lets them.
pub(crate) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// How long sentinels may take to lead to a primary.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// How often a new client is looked at while it is waited for.
const LOOK: Duration = Duration::from_millis(2);

/// A server and the connection to it.
///
/// The library reconnects by itself when a connection is closed. It does not notice one that hangs
/// while there is traffic, and its task may end when its queue is full just then; so both are
/// watched here.
pub(crate) struct Node {
    /// What errors call it.
    name: String,
    config: Config,
    purpose: Purpose,
    log: Arc<OutageLog>,
    current: Mutex<Current>,
}

/// The client library's client, and the task that connects it.
struct Current {
    client: Client,
    task: JoinHandle<Result<(), fred::error::Error>>,
    /// Counts the clients, so that what is heard of an earlier one is not taken for this one's.
    number: u64,
    since: Instant,
    /// When the first of the calls was made that were not answered, if none was answered since.
    silent_since: Option<Instant>,
    /// When the client was last seen connected, or made, if sentinels lead to the server.
    connected_at: Instant,
    /// Whether it said that it is not the primary.
    is_replica: bool,
}

impl Node {
    /// Starts to connect. Errors call the server `name`, and the log knows it by `url`.
    pub(crate) fn start(config: Config, purpose: Purpose, name: String, url: String) -> Self {
        let log = Arc::new(OutageLog::new(url));
        let current = Mutex::new(Current::start(&config, purpose, &log, 0));
        Self { name, config, purpose, log, current }
    }

    /// Waits for the connection, at most for a second.
    pub(crate) async fn connected(&self) {
        let client = self.lock().client.clone();
        drop(tokio::time::timeout(PATIENCE, client.wait_for_connect()).await);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.lock().is_connected()
    }

    /// Sends a command once, and returns its reply.
    pub(crate) async fn send(
        &self,
        first: First,
        command: Command,
        within: Duration,
    ) -> Result<Value, NoReply> {
        let start = Instant::now();
        let Some((client, number, fresh_until)) = self.client() else {
            return Err(NoReply::not_sent(self.log.not_connected()));
        };
        while client.state() != ClientState::Connected {
            // A command that waits for a connection might be sent when no one waits for it any
            // more.
            let left = within.saturating_sub(start.elapsed());
            if left.is_zero() || Instant::now() >= fresh_until {
                return Err(NoReply::not_sent(self.log.not_connected()));
            }
            let look = tokio::time::timeout(left.min(LOOK), client.wait_for_connect());
            drop(look.await);
        }
        let left = within.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(NoReply::not_sent(self.log.not_connected()));
        }
        let result = fred_client::send(&client, first, command, left).await;
        let result = result.map_err(|error| NoReply::of(error, &self.name));
        self.note(number, start, result.as_ref().map_or_else(NoReply::heard, |_| Heard::Server));
        result
    }

    /// Returns the client to ask, its number, and until when it is worth waiting for; or nothing
    /// if it ended, a moment ago.
    fn client(&self) -> Option<(Client, u64, Instant)> {
        let mut current = self.lock();
        let is_silent = current.silent_since.is_some_and(|since| since.elapsed() > PATIENCE);
        if is_silent {
            self.log.begins("it does not answer");
        }
        let is_useless =
            current.is_replica || current.task.is_finished() || self.is_lost(&mut current);
        if is_silent || (is_useless && current.since.elapsed() >= RECONNECT_DELAY) {
            let number = current.number + 1;
            *current = Current::start(&self.config, self.purpose, &self.log, number);
        }
        // Its state may still say that it is connected.
        if current.task.is_finished() {
            return None;
        }
        Some((current.client.clone(), current.number, current.since + RECONNECT_DELAY))
    }

    /// Whether the sentinels did not lead to a primary for too long, so that another one is asked
    /// first.
    fn is_lost(&self, current: &mut Current) -> bool {
        if !matches!(self.config.server, ServerConfig::Sentinel { .. }) {
            return false;
        }
        if current.is_connected() {
            current.connected_at = Instant::now();
        }
        current.connected_at.elapsed() > LOST_AFTER
    }

    /// Notes what was heard of client `number` in answer to a call made at `start`.
    fn note(&self, number: u64, start: Instant, heard: Heard) {
        let mut current = self.lock();
        if current.number != number {
            return;
        }
        match heard {
            Heard::Silence => {
                current.silent_since.get_or_insert(start);
            }
            Heard::Server => {
                current.silent_since = None;
                self.log.ends();
            }
            Heard::Replica => {
                current.silent_since = None;
                current.is_replica = true;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // What it guards is whole at any time.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn start(config: &Config, purpose: Purpose, log: &Arc<OutageLog>, number: u64) -> Self {
        let (client, task) = fred_client::start(config.clone(), purpose, number, Arc::clone(log));
        let now = Instant::now();
        Self {
            client,
            task,
            number,
            since: now,
            silent_since: None,
            connected_at: now,
            is_replica: false,
        }
    }

    fn is_connected(&self) -> bool {
        self.client.state() == ClientState::Connected
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // And with it its connection and all that is queued for it.
        self.task.abort();
    }
}
