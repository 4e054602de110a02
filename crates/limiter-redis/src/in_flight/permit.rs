//! A permit of a request in flight that this process holds.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use limiter_core::{HeldPermit, Timestamp};
use tokio::sync::Notify;

use super::shared::Shared;
use crate::{call::deadline::timeout, client::ScriptClient};

/// What is known of a permit, by the caller and by what renews it.
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

    fn leaves_held(&self, state: u8) -> bool {
        let is_first = self.state.compare_exchange(HELD, state, SeqCst, SeqCst).is_ok();
        if is_first {
            self.changed.notify_waiters();
        }
        is_first
    }
}

/// A permit that the store has counted. Dropping it gives it back.
pub(crate) struct Permit<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    held: Arc<Held>,
    /// Whether a caller has it. One that no caller got can't be lost.
    is_used: bool,
}

impl<C: ScriptClient> Permit<C> {
    pub(crate) fn new(shared: &Arc<Shared<C>>, held: Arc<Held>) -> Self {
        Self { shared: Arc::clone(shared), held, is_used: false }
    }

    /// Returns the permit for a caller, or `None` if the reply came so late that it is lost.
    pub(crate) fn used(mut self) -> Option<Self> {
        self.is_used = !self.held.is_over(self.shared.now());
        self.is_used.then_some(self)
    }
}

impl<C: ScriptClient> HeldPermit for Permit<C> {
    fn is_lost(&self) -> bool {
        self.shared.is_lost(&self.held)
    }

    fn can_be_lost(&self) -> bool {
        true
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (shared, held) = (Arc::clone(&self.shared), Arc::clone(&self.held));
        Box::pin(async move {
            loop {
                let changed = held.changed.notified();
                if shared.is_lost(&held) {
                    return;
                }
                if held.state.load(SeqCst) == LEFT {
                    pending::<()>().await;
                }
                let left = held.ends().saturating_since(shared.now());
                let _ = timeout(&shared.client, left, changed).await;
            }
        })
    }
}

impl<C: ScriptClient> Drop for Permit<C> {
    fn drop(&mut self) {
        if self.is_used {
            // Work that ended after its permit's time has overrun.
            self.shared.is_lost(&self.held);
        }
        self.held.leaves_held(LEFT);
        self.shared.give_back(&self.held);
    }
}
