//! Why a server could not be reached last, for errors.

use std::{error::Error, sync::Arc};

use arc_swap::ArcSwapOption;

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
