//! What happens to keys for which the table is full.

use core::time::Duration;

use crate::{
    Timestamp,
    sync::{AtomicU64, Ordering},
};

/// What happens to a new key while the table has no free slot for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It is refused until the first of its slots is free: the default, because no flood of keys gets
    /// anything by it.
    #[default]
    Refuse,
    /// It is admitted and not counted, so its limit does not hold.
    Admit,
}

/// No slot of a key's lines is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    pub(crate) now: Timestamp,
    /// The time until the first of them is free, if its key is not charged again.
    pub(crate) wait: Duration,
}

impl Full {
    pub(crate) fn free_at(&self) -> Timestamp {
        self.now.saturating_add(self.wait)
    }
}

/// What a limiter does when its table is full, and how often that was.
pub(crate) struct FullTable {
    on_full: OnFull,
    times: AtomicU64,
}

impl FullTable {
    pub(crate) fn new(on_full: OnFull) -> Self {
        Self { on_full, times: AtomicU64::new(0) }
    }

    pub(crate) fn admits(&self) -> bool {
        self.on_full == OnFull::Admit
    }

    pub(crate) fn count(&self) {
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }
}
