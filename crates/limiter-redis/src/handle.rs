//! A limiter's states under one policy.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use limiter_core::{Cost, Decision, Error, Policy, Timestamp, Usage};

use crate::{
    context::Context,
    scripts::{Plan, Scripts},
};

/// What a handle adds to what all handles of a limiter share.
pub(crate) struct Handle {
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
}

impl Handle {
    /// Returns the cached denial of a cost.
    pub(crate) fn denied(
        &self,
        context: &Context,
        key: &[u8],
        cost: Cost,
        now: Timestamp,
    ) -> Option<Decision> {
        let wait_after = |usage: &Usage| self.plan.wait_after(usage, cost);
        context.denials.find(key, &self.policy, cost, now, wait_after)
    }
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
    /// Returns the handle of `policy`, which must have the families of the limiter's own policy, and its names of
    /// several limits.
    pub(crate) fn get(&self, context: &Context, policy: &Policy) -> Result<Arc<Handle>, Error> {
        let Context { settings, .. } = context;
        context.policy.check_families(policy)?;
        let mut handles = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(policy).and_then(Weak::upgrade) {
            return Ok(handle);
        }
        let handle = Arc::new(Handle {
            plan: Plan::new(Scripts::shared(), policy, context.policy.name(), settings.lease),
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
