//! What is known of a permit, by its caller and by what renews it.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
};

use bytes::Bytes;
use limiter_core::Timestamp;
use tokio::sync::{Notify, futures::Notified};

/// A permit that this process holds.
#[derive(Debug)]
pub(crate) struct Held {
    /// Part of its id.
    pub(crate) number: u64,
    pub(crate) key: Bytes,
    pub(crate) limit: u32,
    /// When it is lost unless it is renewed, in nanoseconds of this process's clock.
    ends: AtomicU64,
    state: AtomicU8,
    /// Woken when the state changes.
    changed: Notify,
}

const HELD: u8 = 0;
const LOST: u8 = 1;
const LEFT: u8 = 2;

impl Held {
    pub(crate) fn new(number: u64, key: Bytes, limit: u32, ends: Timestamp) -> Arc<Self> {
        let (ends, state) = (AtomicU64::new(ends.as_nanos()), AtomicU8::new(HELD));
        Arc::new(Self { number, key, limit, ends, state, changed: Notify::new() })
    }

    pub(crate) fn ends(&self) -> Timestamp {
        Timestamp::from_nanos(self.ends.load(SeqCst))
    }

    /// Lets the permit last until `ends`, unless it was lost.
    pub(crate) fn extend(&self, ends: Timestamp) {
        self.ends.fetch_max(ends.as_nanos(), SeqCst);
    }

    /// Returns whether it was lost. A permit that was lost once stays lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(SeqCst) == LOST
    }

    /// Returns whether its time is over. A process that was stopped sees it by the clock, before anything is renewed.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.ends()
    }

    /// Returns true to the first caller, unless the permit was given back.
    pub(crate) fn becomes_lost(&self) -> bool {
        self.leaves_held(LOST)
    }

    /// Notes that its caller holds it no more. Returns false if it was lost.
    pub(crate) fn becomes_left(&self) -> bool {
        self.leaves_held(LEFT)
    }

    pub(crate) fn is_left(&self) -> bool {
        self.state.load(SeqCst) == LEFT
    }

    /// Returns a future that is ready once the permit was lost or given back.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn leaves_held(&self, state: u8) -> bool {
        let is_first = self.state.compare_exchange(HELD, state, SeqCst, SeqCst).is_ok();
        if is_first {
            self.changed.notify_waiters();
        }
        is_first
    }
}
