//! The scripts of a policy, and what they are called with.

use std::{sync::Arc, time::Duration};

use fred::bytes::Bytes;
use limiter_core::{Cost, Decision, Policy};

use super::{ScriptLimit, Scripts, lease::LeaseTerms, limit::Family, limit::argument};
use crate::client::ScriptCall;

/// A policy, as the server's scripts apply it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<ScriptLimit>,
    scripts: Arc<Scripts>,
    /// The limits as arguments of the scripts for any number of limits.
    general: Arc<[Bytes]>,
    /// The limit as arguments of the script for a limit that is alone.
    alone: Option<(Family, Arc<[Bytes]>)>,
    longest_delay: Duration,
    pub(crate) lease: Option<LeaseTerms>,
}

/// What a script replied to a check or a reservation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckReply {
    pub(crate) decision: Decision,
    /// Of an admission for which a receipt was wanted.
    pub(crate) charged: Option<Charged>,
}

/// What a refund needs to know of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(super) cost: i64,
    /// When it was charged, in microseconds of Unix time by the server's clock.
    pub(super) taken_at: i64,
    /// In microseconds.
    pub(super) delay: u64,
    /// What it left in the state of each limit, from `taken_at`.
    pub(super) marks: Vec<i64>,
    /// How long leases hold permits that may be in its debt, in microseconds.
    pub(super) leases: u64,
}

impl Charged {
    pub(crate) const fn permits(&self) -> u64 {
        self.cost.unsigned_abs()
    }

    /// Returns for how long after its request it may be spent, if it is a lease.
    pub(crate) fn lasts(&self, terms: &LeaseTerms) -> Duration {
        terms.lasts(&self.marks)
    }

    pub(crate) const fn delay(&self) -> Duration {
        Duration::from_micros(self.delay)
    }
}

/// The most checks of one limit in a call. With 32, a server and its clients work at the same time,
/// and other commands on the server wait less than a millisecond: `bench redis`.
const MAX_BATCH: usize = 32;

impl Plan {
    /// Returns the plan of a policy, of which leases last `lease` at most.
    pub(crate) fn new(scripts: Arc<Scripts>, policy: &Policy, lease: Option<Duration>) -> Self {
        let limits: Vec<_> = policy.limits().iter().map(ScriptLimit::new).collect();
        let bytes = |text: &String| Bytes::from(text.clone());
        let general = limits.iter().flat_map(|limit| &limit.arguments).map(bytes).collect();
        let alone = match limits.as_slice() {
            [limit] => {
                let family = limit.family();
                let skipped = usize::from(!family.has_kinds());
                Some((family, limit.arguments.iter().skip(skipped).map(bytes).collect()))
            }
            _ => None,
        };
        let longest_delay = limits.iter().map(|limit| limit.longest_delay).min();
        let lease = match (policy.limits(), limits.as_slice()) {
            ([limit], [ScriptLimit { gcra, .. }]) => {
                lease.and_then(|longest| LeaseTerms::of(limit, gcra.as_ref(), longest))
            }
            _ => None,
        };
        let longest_delay = longest_delay.unwrap_or_default();
        Self { limits, scripts, general, alone, longest_delay, lease }
    }

    /// Returns the most checks by policies like this one that one call should have.
    pub(crate) fn max_batch(&self) -> usize {
        // A list takes twice as many commands as a string.
        let is_log = |limit: &ScriptLimit| limit.family() == Family::Log;
        let cost = self.limits.len() + self.limits.iter().filter(|limit| is_log(limit)).count();
        (MAX_BATCH / cost).max(1)
    }

    /// Returns the call that takes `cost` now, without a receipt.
    #[cfg(test)]
    pub(crate) fn check(&self, cost: Cost) -> ScriptCall {
        self.checks(&[(self, cost, 0)])
    }

    /// Returns the call that takes costs now, each of a key of its own and by a policy with the families of
    /// this one, without receipts; or leases of so many permits if they are above 0.
    pub(crate) fn checks(&self, checks: &[(&Self, Cost, u64)]) -> ScriptCall {
        // A cost of one is no argument, because a server takes longer for each: `bench redis`.
        let have_leases = checks.iter().any(|(_, _, wanted)| *wanted > 0);
        let are_ones = checks.iter().all(|(_, cost, _)| *cost == Cost::ONE);
        let mut arguments = Vec::new();
        if have_leases || !are_ones {
            arguments.extend(checks.iter().map(|(_, cost, _)| argument(*cost)));
        }
        if have_leases {
            let number = |number| i64::try_from(number).unwrap_or(i64::MAX).min(1 << 53);
            let terms = |plan: &Self| plan.lease.map_or(0, |lease| number(lease.argument));
            arguments.extend(checks.iter().map(|(_, _, wanted)| number(*wanted)));
            arguments.extend(checks.iter().map(|(plan, _, _)| terms(plan)));
        }
        let call = self.call(arguments);
        if checks.len() == 1 {
            return call;
        }
        let quotas = checks.iter().flat_map(|(plan, _, _)| plan.arguments().iter().cloned());
        ScriptCall { quotas: quotas.collect(), ..call }
    }

    /// Returns the call that takes `cost` `within` some time, with a receipt.
    pub(crate) fn take(&self, cost: Cost, within: Duration) -> ScriptCall {
        let within = within.min(self.longest_delay).as_micros();
        let arguments = vec![argument(cost), i64::try_from(within).unwrap_or(i64::MAX)];
        match self.alone {
            Some((Family::Log, _)) => self.call(arguments),
            _ => ScriptCall::of(&self.scripts.several, &self.general, arguments),
        }
    }

    pub(crate) fn peek(&self) -> ScriptCall {
        self.call(vec![0])
    }

    /// Returns the call that gives back `permits` of a charge by this policy.
    pub(crate) fn refund(&self, charged: &Charged, permits: u64) -> ScriptCall {
        let Charged { cost, taken_at, delay, ref marks, leases } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let leases = i64::try_from(leases).unwrap_or(i64::MAX);
        let mut arguments = vec![permits, cost, taken_at, at, leases];
        arguments.extend(marks);
        let script = match self.alone {
            Some((Family::Log, _)) => &self.scripts.refund_log,
            _ => &self.scripts.refund,
        };
        ScriptCall::of(script, &self.general, arguments)
    }

    pub(crate) fn reset(&self) -> ScriptCall {
        ScriptCall::of(&self.scripts.reset, &[].into(), Vec::new())
    }

    /// Returns whether replies to checks are those of the script of GCRA.
    pub(super) fn gcra_alone(&self) -> Option<&super::Gcra> {
        match self.limits.as_slice() {
            [limit] => limit.gcra.as_ref(),
            _ => None,
        }
    }

    /// Returns a call of the script that checks this policy.
    fn call(&self, arguments: Vec<i64>) -> ScriptCall {
        let script = match &self.alone {
            Some((family, _)) => family.script(&self.scripts),
            None => &self.scripts.several,
        };
        ScriptCall::of(script, self.arguments(), arguments)
    }

    fn arguments(&self) -> &Arc<[Bytes]> {
        self.alone.as_ref().map_or(&self.general, |(_, arguments)| arguments)
    }
}
