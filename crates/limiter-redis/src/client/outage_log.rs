//! One log line when a server becomes unreachable, and one when it replies again.

use std::{
    error::Error,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::damper::Damper;

/// The target of the log lines, for filters.
pub(crate) const TARGET: &str = "limiter_redis";

/// Logs the begin of an outage with its cause, at WARN, and its end, at INFO.
pub(crate) struct OutageLog {
    url: String,
    failing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The latest cause of the outage.
    cause: String,
    damper: Damper,
}

impl OutageLog {
    pub(crate) fn new(url: String) -> Self {
        Self { url, failing: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Notes that the server can't be reached. To be called again while that lasts.
    pub(crate) fn begins(&self, cause: &str) {
        let mut state = self.lock();
        cause.clone_into(&mut state.cause);
        self.failing.store(true, Ordering::Relaxed);
        if let Some(others) = state.damper.begins(Instant::now()) {
            let url = &self.url;
            tracing::warn!(target: TARGET, url, "Redis is unreachable: {cause}{others}");
        }
    }

    /// Notes that the server has replied.
    pub(crate) fn ends(&self) {
        // Reads first, so that a call during normal operation writes nothing that threads share.
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            let mut state = self.lock();
            state.cause.clear();
            if state.damper.ends() {
                tracing::info!(target: TARGET, url = self.url, "Redis replies again");
            }
        }
    }

    /// Logs that a connection keeps credentials that were to be renewed.
    pub(crate) fn not_renewed(&self, error: &dyn Error) {
        tracing::warn!(target: TARGET, url = self.url, "the credentials are not renewed: {error}");
    }

    /// Returns the message for a command that has no connection.
    pub(crate) fn not_connected(&self) -> String {
        let (url, state) = (&self.url, self.lock());
        let colon = if state.cause.is_empty() { "" } else { ": " };
        format!("not connected to {url}{colon}{}", state.cause)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under the lock can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
