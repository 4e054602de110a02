//! A policy, as the server's scripts apply it.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Cost, Policy, Usage};

use super::{
    limit::{Kind, ScriptLimit},
    terms::LeaseTerms,
};

/// A limiter's states under one policy: the scripts of the policy, and what they are called with. All handles under that
/// policy share it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policy: Policy,
    pub(crate) limits: Vec<ScriptLimit>,
    /// The kind of the only limit, if its script can apply the policy: it is not paced.
    pub(crate) own: Option<Kind>,
    /// The most requests by policies like this one that one call should have.
    pub(crate) max_batch: usize,
    /// Whether the states of some limits are fields of the subject's hash, and not lists beside it.
    has_hash: bool,
    pub(crate) lease: Option<LeaseTerms>,
}

/// The most checks of one limit in a call. With 32, a server and its clients work at the same time,
/// and other commands on the server wait less than a millisecond: `bench redis`.
const MAX_BATCH: usize = 32;

/// The most permits of a log whose checks share a call.
const MAX_ENTRIES: u64 = 10_000;

impl Plan {
    /// Returns the plan of a policy in a limiter of this name, whose permits may be leased.
    pub(crate) fn new(policy: &Policy, limiter: &str, may_lease: bool) -> Self {
        let identities = policy.identities_in(limiter);
        let limits = policy.limits().iter().zip(&*identities);
        let limits: Vec<_> =
            limits.map(|(limit, identity)| ScriptLimit::new(limit, identity)).collect();
        let own = match limits.as_slice() {
            [limit] => limit.has_own_script.then_some(limit.kind),
            _ => None,
        };
        let lease = match (policy.limits(), limits.as_slice()) {
            ([limit], [ScriptLimit { gcra, .. }]) if may_lease && own.is_some() => {
                LeaseTerms::of(limit, gcra.as_ref())
            }
            _ => None,
        };
        let logs = limits.iter().filter(|limit| limit.kind.is_log());
        // A large cost reads as many entries of a log.
        let max_batch = match logs.clone().any(|limit| limit.largest > MAX_ENTRIES) {
            true => 1,
            // A list takes twice as many commands as a field.
            false => (MAX_BATCH / (limits.len() + logs.clone().count())).max(1),
        };
        let has_hash = logs.count() < limits.len();
        Self { policy: policy.clone(), limits, own, max_batch, has_hash, lease }
    }

    /// Adds the keys of a subject: its hash, unless all limits are logs, and then the list of each log.
    pub(crate) fn add_keys(&self, hash: &Bytes, keys: &mut Vec<Bytes>) {
        if self.has_hash {
            keys.push(hash.clone());
        }
        keys.extend(self.lists().map(|identity| list(hash, identity)));
    }

    /// Returns the texts that identify the states of those limits that are logs.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Bytes> {
        let logs = self.limits.iter().filter(|limit| limit.kind.is_log());
        logs.map(|limit| &limit.identity)
    }

    /// Returns for how long no `cost` fits, which is more than what is left, if this usage says that.
    pub(crate) fn wait_after(&self, usage: &Usage, cost: Cost) -> Option<Duration> {
        match self.limits.as_slice() {
            [limit] => limit.wait_after(usage, cost),
            _ => None,
        }
    }
}

/// Returns the key of a subject's list under a limit with this identity.
pub(crate) fn list(hash: &[u8], identity: &[u8]) -> Bytes {
    [hash, b":", identity].concat().into()
}
