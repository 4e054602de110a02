//! What the limiters on one connection share on their way to the store.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{check::Check, loads::Loads, queue::Queue, request::Request};

/// The checks that wait to be sent, and what is known of the servers.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) queue: Arc<Queue<Request<Check>>>,
    pub(crate) loads: Arc<Loads>,
    /// Whether the server refused a call with keys of several subjects with `CROSSSLOT`.
    is_node_of_cluster: AtomicBool,
}

impl Line {
    /// Returns whether the server has refused a call with keys of several subjects.
    pub(crate) fn is_node_of_cluster(&self) -> bool {
        self.is_node_of_cluster.load(Relaxed)
    }

    /// Notes that it has, and returns whether this is new.
    pub(crate) fn becomes_node_of_cluster(&self) -> bool {
        !self.is_node_of_cluster.swap(true, Relaxed)
    }
}
