//! The settings of a layer.

use std::{fmt, sync::Arc, time::Duration};

use http::{request, response};
use limiter_core::{OnStoreFailure, WaitingLimiter};

use crate::{event::Reporter, name::host_of_request, spend::Spend};

/// The longest time that can be set, so that no moment overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Returns the host that a request is counted for.
type HostFn = Arc<dyn Fn(&request::Parts) -> Option<String> + Send + Sync>;

/// Returns whether a response refused its request because of a limit, if it knows.
type ClassifyFn = Arc<dyn Fn(&response::Parts) -> Option<bool> + Send + Sync>;

/// The settings of a layer.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Returns the limiter of a new host.
    pub(crate) limiter: Arc<dyn Fn() -> Arc<dyn WaitingLimiter> + Send + Sync>,
    /// `None` for the host of the URI.
    pub(crate) host: Option<HostFn>,
    pub(crate) classify: Option<ClassifyFn>,
    pub(crate) within: Duration,
    pub(crate) queue: usize,
    pub(crate) longest_pause: Duration,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) spend: Spend,
    pub(crate) reporter: Reporter,
}

impl Settings {
    /// Returns what a request is counted for.
    pub(crate) fn name_of(&self, head: &request::Parts) -> Option<String> {
        self.host.as_ref().map_or_else(|| Some(host_of_request(head)), |host| host(head))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("policy", &self.reporter.policy)
            .field("within", &self.within)
            .field("queue", &self.queue)
            .field("longest_pause", &self.longest_pause)
            .field("on_store_failure", &self.on_store_failure)
            .field("spend", &self.spend)
            .finish_non_exhaustive()
    }
}
