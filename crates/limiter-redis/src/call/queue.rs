//! What waits to be sent together, and how many operations are under way.

use std::{
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{AcqRel, Acquire},
        },
    },
    task::Poll,
};

use tokio::sync::Notify;

/// Items that wait for a task to take them. The first one starts the task.
pub(crate) struct Queue<T>(Mutex<Vec<T>>);

/// A task's claim on the items. If it is dropped early, because its runtime is shut down, it removes
/// them, so that the next item starts another task.
pub(crate) struct QueueClaim<T> {
    queue: Arc<Queue<T>>,
    /// Items that are added after this need another task.
    is_over: bool,
}

impl<T> Queue<T> {
    /// Adds an item. Returns the claim on the items if it is the first.
    pub(crate) fn push(self: &Arc<Self>, item: T) -> Option<QueueClaim<T>> {
        let mut items = self.lock();
        items.push(item);
        (items.len() == 1).then(|| QueueClaim { queue: Arc::clone(self), is_over: false })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        // No operation under the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> QueueClaim<T> {
    pub(crate) fn take(mut self) -> Vec<T> {
        self.is_over = true;
        mem::take(&mut *self.queue.lock())
    }
}

impl<T> Drop for QueueClaim<T> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(mem::take(&mut *self.queue.lock()));
        }
    }
}

/// Lets the tasks that are ready run first. Unlike Tokio's `yield_now`, this does not poll the network
/// in between, which is a system call.
pub(crate) async fn let_ready_tasks_run() {
    let mut has_waited = false;
    poll_fn(|context| {
        if mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

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
