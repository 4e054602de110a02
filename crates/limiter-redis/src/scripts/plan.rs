//! A policy, as the server's scripts apply it.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::Policy;

use super::{Script, ScriptLimit, Scripts, limit::Family, terms::LeaseTerms};

/// The scripts of a policy, and what they are called with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<ScriptLimit>,
    pub(super) scripts: Arc<Scripts>,
    /// The script of the only limit's family and the limit's arguments of it, `None` if that can't apply the policy.
    pub(super) own: Option<(Script, Vec<Bytes>)>,
    /// In microseconds.
    pub(super) longest_delay: u64,
    pub(crate) lease: Option<LeaseTerms>,
}

/// The most checks of one limit in a call. With 32, a server and its clients work at the same time,
/// and other commands on the server wait less than a millisecond: `bench redis`.
const MAX_BATCH: usize = 32;

impl Plan {
    /// Returns the plan of a policy, whose permits may be leased.
    pub(crate) fn new(scripts: Arc<Scripts>, policy: &Policy, may_lease: bool) -> Self {
        let limits: Vec<_> = policy.limits().iter().map(ScriptLimit::new).collect();
        let own = match limits.as_slice() {
            [limit] => limit
                .own_arguments()
                .map(|arguments| (limit.family().script(&scripts).clone(), arguments)),
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
            scripts,
            own,
            lease,
        }
    }

    /// Returns the most requests by policies like this one that one call should have.
    pub(crate) fn max_batch(&self) -> usize {
        // A list takes twice as many commands as a string.
        let is_log = |limit: &ScriptLimit| limit.family() == Family::Log;
        let cost = self.limits.len() + self.limits.iter().filter(|limit| is_log(limit)).count();
        (MAX_BATCH / cost).max(1)
    }

    /// Returns whether the script of a family can apply the policy: it has one limit, which is not paced.
    pub(crate) const fn has_own_script(&self) -> bool {
        self.own.is_some()
    }
}
