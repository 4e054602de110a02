//! A policy, as the server's scripts apply it.

use bytes::Bytes;
use limiter_core::Policy;

use super::{ScriptLimit, limit::Kind, terms::LeaseTerms};

/// The scripts of a policy, and what they are called with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<ScriptLimit>,
    /// The kind of the only limit, if its script can apply the policy: it is not paced.
    pub(crate) own: Option<Kind>,
    /// The most requests by policies like this one that one call should have.
    pub(crate) max_batch: usize,
    /// Whether the states of some limits are fields of the subject's hash, and not lists beside it.
    has_hash: bool,
    /// In microseconds.
    pub(super) longest_delay: u64,
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
        let longest_delay = limits.iter().map(|limit| limit.longest_delay.as_micros()).min();
        Self {
            longest_delay: longest_delay.and_then(|it| it.try_into().ok()).unwrap_or(0),
            limits,
            own,
            max_batch,
            has_hash,
            lease,
        }
    }

    /// Adds the keys of a subject: its hash, unless all limits are logs, and then the list of each log.
    pub(crate) fn add_keys(&self, hash: &Bytes, keys: &mut Vec<Bytes>) {
        if self.has_hash {
            keys.push(hash.clone());
        }
        keys.extend(self.lists().map(|identity| list(hash, identity)));
    }

    /// Returns the texts that identify the states of all limits.
    pub(crate) fn identities(&self) -> impl Iterator<Item = &Bytes> {
        self.limits.iter().map(|limit| &limit.identity)
    }

    /// Returns the texts that identify the states of those limits that are logs.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Bytes> {
        let logs = self.limits.iter().filter(|limit| limit.kind.is_log());
        logs.map(|limit| &limit.identity)
    }
}

/// Returns the key of a subject's list under a limit with this identity.
pub(crate) fn list(hash: &[u8], identity: &[u8]) -> Bytes {
    [hash, b":", identity].concat().into()
}
