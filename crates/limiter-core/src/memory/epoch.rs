//! Until when charges can be refunded.

use crate::sync::{AtomicU64, Ordering};

/// Counts how often an impossible state was replaced by a full debt, which no refund may give back: a
/// charge counts on only in the epoch in which it was made. A replacement in one key's state begins an
/// epoch for all keys, because no state has room for its own.
///
/// It is changed before a state is replaced, and read under the lock of a state or before a state is
/// charged, so that the order of the states' changes is also that of the epochs.
#[derive(Default)]
pub(crate) struct Epoch(AtomicU64);

impl Epoch {
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
