//! A policy, as the server's scripts apply it.

use bytes::Bytes;
use limiter_core::Policy;

use super::{ScriptLimit, limit::Kind, terms::LeaseTerms};

/// The scripts of a policy, and what they are called with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<ScriptLimit>,
    /// The kind of the only limit, if its script can apply the policy.
    pub(super) own: Option<Kind>,
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
        let longest_delay = limits.iter().map(|limit| limit.longest_delay.as_micros()).min();
        Self {
            longest_delay: longest_delay.and_then(|it| it.try_into().ok()).unwrap_or(0),
            limits,
            own,
            lease,
        }
    }

    /// Adds the keys of a subject: its hash, unless all limits are logs, and then the list of each log.
    pub(crate) fn add_keys(&self, hash: &Bytes, keys: &mut Vec<Bytes>) {
        if self.limits.iter().any(|limit| !limit.kind.is_log()) {
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

    /// Returns the most requests by policies like this one that one call should have.
    pub(crate) fn max_batch(&self) -> usize {
        // A large cost reads as many entries of a log.
        let is_long = |limit: &ScriptLimit| limit.kind.is_log() && limit.largest > MAX_ENTRIES;
        if self.limits.iter().any(is_long) {
            return 1;
        }
        // A list takes twice as many commands as a field.
        (MAX_BATCH / (self.limits.len() + self.lists().count())).max(1)
    }

    /// Returns whether the script of a kind can apply the policy: it has one limit, which is not paced.
    pub(crate) const fn has_own_script(&self) -> bool {
        self.own.is_some()
    }
}

/// Returns the key of a subject's list under a limit with this identity.
pub(crate) fn list(hash: &[u8], identity: &[u8]) -> Bytes {
    [hash, b":", identity].concat().into()
}
