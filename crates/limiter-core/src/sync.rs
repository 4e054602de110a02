//! Locks and atomics of the standard library or of the model checker, and a thread's waker.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, PoisonError, TryLockError},
    task::{Wake, Waker},
    thread::{self, Thread},
};

#[cfg(loom)]
use loom as library;
#[cfg(not(loom))]
use std as library;

pub(crate) use library::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

/// Locks a mutex whose holders leave its value whole at any time, also when they panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex as [`lock`] does, unless it is locked.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns a waker that unparks this thread.
pub(crate) fn unpark_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls all wakers, also those behind one that panics, and then resumes the first panic.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    let wake = |waker: Waker| catch_unwind(AssertUnwindSafe(|| waker.wake())).err();
    let panics: Vec<_> = wakers.into_iter().filter_map(wake).collect();
    // A waiter that is dropped while its thread panics would abort the process by another panic.
    if let Some(first) = panics.into_iter().next()
        && !thread::panicking()
    {
        resume_unwind(first);
    }
}
