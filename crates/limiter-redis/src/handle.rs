//! A limiter's states under one policy.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use limiter_core::{Error, Policy};

use crate::scripts::Plan;

/// What a handle adds to what all handles of a limiter share.
pub(crate) struct Handle {
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
}

/// The handles of a limiter that are in use.
///
/// A program can call `with_policy` for each request: requests of one policy at the same moment then
/// share a handle.
#[derive(Default)]
pub(crate) struct Handles {
    in_use: Mutex<HashMap<Policy, Weak<Handle>>>,
    /// What identifies the states of all logs that there were, for resets.
    lists: Mutex<HashSet<Bytes>>,
}

/// Unused handles are removed when there are as many as this, and twice those that remained.
const FIRST_SWEEP: usize = 64;

/// How many logs are known. With more, a reset is of the first ones.
const MOST_LISTS: usize = 1_000;

impl Handles {
    /// Returns the handle of `policy`, which must have the families of the limiter's `own` policy, and its names of
    /// several limits.
    pub(crate) fn get(
        &self,
        own: &Policy,
        policy: &Policy,
        may_lease: bool,
    ) -> Result<Arc<Handle>, Error> {
        own.check_families(policy)?;
        let mut handles = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(policy).and_then(Weak::upgrade) {
            return Ok(handle);
        }
        let handle = Arc::new(Handle {
            plan: Plan::new(policy, own.name(), may_lease),
            policy: policy.clone(),
        });
        if handles.len() >= FIRST_SWEEP && handles.len() == handles.capacity() {
            handles.retain(|_, handle| handle.strong_count() > 0);
        }
        handles.insert(policy.clone(), Arc::downgrade(&handle));
        drop(handles);
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() < MOST_LISTS {
            lists.extend(handle.plan.lists().cloned());
        }
        drop(lists);
        Ok(handle)
    }

    /// Returns what identifies the states of the limiter's logs.
    pub(crate) fn lists(&self) -> Vec<Bytes> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
