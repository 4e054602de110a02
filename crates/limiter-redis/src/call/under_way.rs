//! How many operations of a limiter are under way.

use std::sync::{
    Arc,
    atomic::{
        AtomicUsize,
        Ordering::{AcqRel, Acquire},
    },
};

use tokio::sync::Notify;

/// Counts the operations under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    number: AtomicUsize,
    none: Notify,
}

/// One operation that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Operating(Arc<UnderWay>);

impl UnderWay {
    /// How many operations of a limiter may be under way at a time. Others fail at once, so that a connection
    /// that stalls does not fill the memory.
    pub(crate) const MAX: usize = 65_536;

    /// Counts one more operation, unless there are [`UnderWay::MAX`].
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Operating> {
        let operating = Operating(Arc::clone(self));
        (self.number.fetch_add(1, AcqRel) < Self::MAX).then_some(operating)
    }

    pub(crate) fn number(&self) -> usize {
        self.number.load(Acquire)
    }

    /// Waits until no operation is under way.
    pub(crate) async fn ended(&self) {
        loop {
            let none = self.none.notified();
            if self.number() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Operating {
    fn drop(&mut self) {
        if self.0.number.fetch_sub(1, AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
