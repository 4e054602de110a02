//! The standard library's locks and atomics. The loom models compile this crate's files with loom's.

pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
