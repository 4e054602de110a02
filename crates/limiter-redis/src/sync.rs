//! Locks and atomics: the standard library's. The models are compiled with a checker's instead.

pub(crate) use std::sync::{
    RwLock,
    atomic::{AtomicU64, Ordering},
};
