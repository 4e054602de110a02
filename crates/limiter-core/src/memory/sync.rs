//! Locks and atomics: the standard library's, or those of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};
