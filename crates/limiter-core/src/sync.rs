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

/// A number that never exceeds its bound.
pub(crate) struct Bounded {
    number: AtomicUsize,
    bound: usize,
}

impl Bounded {
    pub(crate) fn new(bound: usize) -> Self {
        Self { number: AtomicUsize::new(0), bound }
    }

    pub(crate) fn get(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    pub(crate) fn is_full(&self) -> bool {
        self.get() >= self.bound
    }

    /// Adds one, and returns whether the bound allowed it.
    pub(crate) fn add(&self) -> bool {
        let next = |number| (number < self.bound).then_some(number + 1);
        self.number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Subtracts one that was added.
    pub(crate) fn subtract(&self) {
        self.number.fetch_sub(1, Ordering::Relaxed);
    }
}
