//! A connection that is made anew whenever it is lost, or hangs.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClientState, config::Config},
};
use limiter_core::{Error, ErrorKind};
use tokio::task::JoinHandle;

use crate::{
    client::{RunError, ScriptCall, ScriptClient},
    fred_client::{self, Heard},
};

/// Returns a connection to the server at `url`, such as `redis://127.0.0.1:6379`, once it is made,
/// or after a second without.
///
/// The server need not be there: until it is, and whenever it is gone, checks fail, and the
/// connection is tried for again ten times a second. One on which nothing was answered for a second,
/// nor within a check's deadline if that is longer, is given up for a new one. That the server can't be reached, and why, is logged once when it
/// begins, at the level WARN, and so is its end.
///
/// # Errors
///
/// [`ErrorKind::InvalidSetting`] if `url` can't be understood or asks for TLS, Cluster or Sentinel,
/// which are not supported yet, or if there is no Tokio runtime. A server that is not there is no
/// error.
pub async fn connect(url: &str) -> Result<Connection, Error> {
    let config = fred_client::config(url)?;
    let url = fred_client::redacted(url);
    if tokio::runtime::Handle::try_current().is_err() {
        let message =
            format!("the server address {url:?}: there is no Tokio runtime to connect on");
        return Err(Error::new(ErrorKind::InvalidSetting, message));
    }
    let log = Arc::new(OutageLog { url, failing: AtomicBool::new(false) });
    let current = Current::start(config.clone(), &log, 0);
    let client = current.client.clone();
    let connection =
        Connection { shared: Arc::new(Shared { config, log, current: Mutex::new(current) }) };
    drop(tokio::time::timeout(PATIENCE, client.wait_for_connect()).await);
    Ok(connection)
}

/// A connection to a Redis or Valkey server, which clones share. See [`connect`].
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// How long a connection may take to be made, or to answer anything at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

struct Shared {
    config: Config,
    log: Arc<OutageLog>,
    current: Mutex<Current>,
}

/// The client library's client, and the task that connects it.
///
/// The library reconnects by itself when a connection is closed. It does not notice one that hangs
/// while there is traffic, and its task may end when its queue is full just then; so both are
/// watched here.
struct Current {
    client: Client,
    task: JoinHandle<Result<(), fred::error::Error>>,
    /// Counts the clients, so that what is heard of an earlier one is not taken for this one's.
    number: u64,
    /// When the first of the calls was made that were not answered, if none was answered since.
    silent_since: Option<Instant>,
}

/// Says once that and why there is an outage, and once that it is over.
pub(crate) struct OutageLog {
    url: String,
    failing: AtomicBool,
}

impl Connection {
    /// Returns the client to ask, its number, and whether it is new.
    fn client(&self) -> (Client, u64, bool) {
        let mut current = self.shared.lock();
        let silent = current.silent_since.is_some_and(|since| since.elapsed() > PATIENCE);
        if silent {
            self.shared.log.begins("it does not answer");
        }
        let is_new = silent || current.task.is_finished();
        if is_new {
            let number = current.number + 1;
            *current = Current::start(self.shared.config.clone(), &self.shared.log, number);
        }
        (current.client.clone(), current.number, is_new)
    }

    /// Notes whether a call of client `number`, made at `start`, was answered.
    fn note(&self, number: u64, start: Instant, heard: Heard) {
        let mut current = self.shared.lock();
        if current.number != number {
            return;
        }
        match heard {
            Heard::Silence => {
                current.silent_since.get_or_insert(start);
            }
            Heard::Server => {
                current.silent_since = None;
                self.shared.log.ends();
            }
        }
    }
}

impl ScriptClient for Connection {
    async fn run(&self, call: ScriptCall, within: Duration) -> Result<Vec<i64>, RunError> {
        let start = Instant::now();
        let (client, number, is_new) = self.client();
        if is_new {
            drop(tokio::time::timeout(within, client.wait_for_connect()).await);
        }
        let left = within.saturating_sub(start.elapsed());
        // A command that waits for a connection might be sent when no one waits for it any more.
        if client.state() != ClientState::Connected || left.is_zero() {
            let message = format!("not connected to {}", self.shared.log.url);
            return Err(RunError::Failed(Error::new(ErrorKind::Unavailable, message)));
        }
        let (result, heard) = fred_client::call(&client, call, left).await;
        self.note(number, start, heard);
        result
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Current> {
        // What it guards is whole at any time.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn start(config: Config, log: &Arc<OutageLog>, number: u64) -> Self {
        let (client, task) = fred_client::start(config, Arc::clone(log));
        Self { client, task, number, silent_since: None }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // And with it its connection and all that is queued for it.
        self.task.abort();
    }
}

impl OutageLog {
    pub(crate) fn begins(&self, why: &str) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(url = self.url, "can't reach Redis: {why}");
        }
    }

    fn ends(&self) {
        // Looks first: while all is well, no check writes to what all share.
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::warn!(url = self.url, "Redis answers again");
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.shared.log.url).finish_non_exhaustive()
    }
}
