//! A permit to give back.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::Timestamp;

use crate::call::under_way::Operating;

/// A permit to give back, and until when the store may count it.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub(crate) key: Bytes,
    pub(crate) number: u64,
    pub(crate) until: Timestamp,
    /// Whether it was lost, so that it does not count any more.
    pub(crate) is_lost: bool,
}

/// A permit that waits to be given back. The end of a program can wait for it.
pub(crate) struct Waiting {
    pub(super) leave: Leave,
    /// After the next call that fails.
    pub(super) pause: Duration,
    /// Absent if too many operations are under way.
    pub(super) _operating: Option<Operating>,
}
