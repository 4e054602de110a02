//! A limiter's states under one policy.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use limiter_core::{Error, Policy};

use crate::{
    call::{batch::BatchQueue, fallback::Local},
    scripts::Plan,
};

/// What a handle adds to what all handles of a limiter share.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
    pub(crate) queue: BatchQueue,
    pub(crate) local: Option<Local>,
}

/// The handles of a limiter that are in use.
///
/// A program can call `with_policy` for each request: requests of one policy at the same moment then
/// share a handle, its compiled scripts and its batches.
#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<HashMap<Policy, Weak<Handle>>>);

impl Handles {
    /// Removes unused entries when there are as many as this, and twice those that remained.
    const FIRST_SWEEP: usize = 64;

    /// Returns the handle of `policy`, made by `make` if there is none.
    pub(crate) fn get(
        &self,
        policy: &Policy,
        make: impl FnOnce() -> Result<Handle, Error>,
    ) -> Result<Arc<Handle>, Error> {
        let mut handles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(policy).and_then(Weak::upgrade) {
            return Ok(handle);
        }
        let handle = Arc::new(make()?);
        if handles.len() >= Self::FIRST_SWEEP && handles.len() == handles.capacity() {
            handles.retain(|_, handle| handle.strong_count() > 0);
        }
        handles.insert(policy.clone(), Arc::downgrade(&handle));
        Ok(handle)
    }
}
