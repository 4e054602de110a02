//! A policy, as the server's scripts apply it.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::Policy;

use super::{ScriptLimit, Scripts, check::Route, lease::LeaseTerms, limit::Family};

/// The scripts of a policy, and what they are called with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<ScriptLimit>,
    pub(super) scripts: Arc<Scripts>,
    /// Each limit's arguments of the scripts for limits of all kinds.
    pub(super) demands: Vec<[Bytes; 4]>,
    /// The only limit's arguments of the script of its family, `None` if that can't apply the policy.
    pub(super) own: Option<(Family, Arc<[Bytes]>)>,
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
            [limit] => limit.own_arguments().map(|arguments| {
                let bytes = arguments.into_iter().map(|text| Bytes::from(text.to_owned()));
                (limit.family(), bytes.collect())
            }),
            _ => None,
        };
        let lease = match (policy.limits(), limits.as_slice()) {
            ([limit], [ScriptLimit { gcra, .. }]) if may_lease && own.is_some() => {
                LeaseTerms::of(limit, gcra.as_ref())
            }
            _ => None,
        };
        let demand = |limit: &ScriptLimit| limit.arguments.clone().map(Bytes::from);
        let longest_delay = limits.iter().map(|limit| limit.longest_delay.as_micros()).min();
        Self {
            demands: limits.iter().map(demand).collect(),
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

    /// Returns the script for a check, which may become a lease of the permits that are `wanted`.
    pub(crate) const fn route(&self, wanted: u64) -> Route {
        match self.own {
            None => Route::Policy,
            Some(_) if wanted > 0 && self.lease.is_some() => Route::Lease,
            Some(_) => Route::Own,
        }
    }
}
