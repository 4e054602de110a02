//! One line of log when an outage begins, and one when it is over.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// What filters of the log know it by.
const TARGET: &str = "limiter_redis";

/// Says once that and why there is an outage, and once that it is over.
pub(crate) struct OutageLog {
    url: String,
    failing: AtomicBool,
    /// Why there is an outage, as was last heard.
    cause: Mutex<String>,
}

impl OutageLog {
    pub(crate) fn new(url: String) -> Self {
        Self { url, failing: AtomicBool::new(false), cause: Mutex::default() }
    }

    pub(crate) fn begins(&self, why: &str) {
        why.clone_into(&mut self.cause());
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(target: TARGET, url = self.url, "can't reach Redis: {why}");
        }
    }

    pub(crate) fn ends(&self) {
        // Looks first: while all is well, no check writes to what all share.
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            self.cause().clear();
            tracing::warn!(target: TARGET, url = self.url, "Redis answers again");
        }
    }

    /// Returns what a command is told that finds no connection.
    pub(crate) fn not_connected(&self) -> String {
        let (url, cause) = (&self.url, self.cause());
        let colon = if cause.is_empty() { "" } else { ": " };
        format!("not connected to {url}{colon}{cause}")
    }

    fn cause(&self) -> MutexGuard<'_, String> {
        // What it guards is whole at any time.
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
