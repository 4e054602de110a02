//! The standard library's lock and atomics. The loom models compile this crate's files with loom's.

pub(crate) use std::sync::{
    RwLock,
    atomic::{AtomicU64, Ordering},
};
