//! Calls the observer of a limiter, never on a thread that serves checks.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The function that receives events.
pub(crate) type Observer<E> = dyn Fn(&E) + Send + Sync;

/// How many events may wait for the observer. Others are counted as unobserved.
pub(crate) const MAX_WAITING: usize = 1_024;

/// An observer, and the events that wait for it.
///
/// The first event starts a task on a thread for blocking tasks, which ends when none waits. So events keep
/// their order, and an observer that blocks or panics delays no check.
pub(crate) struct ObserverQueue<E> {
    observer: Arc<Observer<E>>,
    spawn: Box<Spawn>,
    /// The events that wait for the task which calls the observer, `None` while no task runs.
    waiting: Mutex<Option<VecDeque<E>>>,
}

/// Runs the task on a thread for work that may block.
pub(crate) type Spawn = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

impl<E: Send + 'static> ObserverQueue<E> {
    pub(crate) fn new(observer: Arc<Observer<E>>, spawn: Box<Spawn>) -> Arc<Self> {
        Arc::new(Self { observer, spawn, waiting: Mutex::new(None) })
    }

    /// Adds an event, and returns whether there was room for it.
    pub(crate) fn push(self: &Arc<Self>, event: E) -> bool {
        let mut waiting = self.lock();
        let has_task = waiting.is_some();
        let events = waiting.get_or_insert_default();
        if events.len() >= MAX_WAITING {
            return false;
        }
        events.push_back(event);
        if !has_task {
            let queue = Arc::clone(self);
            (self.spawn)(Box::new(move || queue.call_observer()));
        }
        true
    }

    /// Passes the events that wait to the observer, one after the other.
    fn call_observer(&self) {
        while let Some(event) = self.next() {
            let call = AssertUnwindSafe(|| (self.observer)(&event));
            if catch_unwind(call).is_err() {
                tracing::error!("the observer of a limiter panicked");
            }
        }
    }

    fn next(&self) -> Option<E> {
        let mut waiting = self.lock();
        let event = waiting.as_mut()?.pop_front();
        if event.is_none() {
            *waiting = None;
        }
        event
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<E>>> {
        // No operation under the lock can leave it half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
