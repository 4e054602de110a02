//! Locks that one thread takes at a time, because the client trait asks for `Send`.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. It is never taken twice: no task is polled, and no event runs, while a lock is held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
