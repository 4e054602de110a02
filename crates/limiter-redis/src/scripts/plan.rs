//! The scripts of a policy, and what they are called with.

use std::{sync::Arc, time::Duration};

use limiter_core::{Cost, Decision, Policy};

use super::{Script, Scripts, Single, limit::argument};

/// A policy, as the server's scripts apply it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Single>,
    scripts: Scripts,
    /// The quotas as the check script reads them.
    quotas: Arc<[Arc<str>]>,
    /// The quotas as the refund script reads them.
    refunded: Arc<[Arc<str>]>,
    none: Arc<[Arc<str>]>,
    longest_delay: Duration,
}

/// A script and what it is called with.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// The first of `ARGV`.
    pub(crate) quotas: &'a Arc<[Arc<str>]>,
    /// The rest of `ARGV`.
    pub(crate) arguments: Vec<i64>,
}

/// What a script took, or that it refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
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
    /// Where it stands in the state of each limit, from `taken_at`.
    pub(super) marks: Vec<i64>,
}

impl Charged {
    pub(crate) const fn delay(&self) -> Duration {
        Duration::from_micros(self.delay)
    }
}

impl Plan {
    pub(crate) fn new(prelude: &str, policy: &Policy) -> Self {
        let limits: Vec<_> = policy.limits().iter().map(Single::new).collect();
        let general = limits.iter().flat_map(|limit| limit.arguments.iter().cloned());
        let count = Arc::from(limits.len().to_string());
        let mut refunded: Arc<[Arc<str>]> = [count].into_iter().chain(general).collect();
        let mut quotas = Arc::clone(&refunded);
        if let [limit] = limits.as_slice() {
            quotas = limit.alone().into();
            if limit.form().refund().is_some() {
                refunded = Arc::clone(&quotas);
            }
        }
        let longest_delay = limits.iter().map(|limit| limit.longest_delay).min();
        Self {
            scripts: Scripts::new(prelude, &limits),
            limits,
            quotas,
            refunded,
            none: Arc::from([]),
            longest_delay: longest_delay.unwrap_or_default(),
        }
    }

    /// Returns the call that takes `cost` now, without a receipt.
    pub(crate) fn check(&self, cost: Cost) -> Call<'_> {
        // A cost of one is no argument, because a server takes longer for each: `bench redis`.
        let cost = if cost == Cost::ONE { Vec::new() } else { vec![argument(cost)] };
        Call { script: &self.scripts.check, quotas: &self.quotas, arguments: cost }
    }

    /// Returns the call that takes costs now, each of a key of its own, without receipts.
    pub(crate) fn checks(&self, costs: &[Cost]) -> Call<'_> {
        if let &[cost] = costs {
            return self.check(cost);
        }
        let arguments = costs.iter().copied().map(argument).collect();
        Call { script: &self.scripts.many, quotas: &self.quotas, arguments }
    }

    /// Returns the call that takes `cost` `within` some time, with a receipt.
    pub(crate) fn take(&self, cost: Cost, within: Duration) -> Call<'_> {
        let within = within.min(self.longest_delay).as_micros();
        let within = i64::try_from(within).unwrap_or(i64::MAX);
        let arguments = vec![argument(cost), within];
        Call { script: &self.scripts.check, quotas: &self.quotas, arguments }
    }

    pub(crate) fn peek(&self) -> Call<'_> {
        Call { script: &self.scripts.check, quotas: &self.quotas, arguments: vec![0] }
    }

    /// Returns the call that gives back `permits` of a charge by this policy.
    pub(crate) fn refund(&self, charged: &Charged, permits: u64) -> Call<'_> {
        let Charged { cost, taken_at, delay, ref marks } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let mut arguments = vec![permits, cost, taken_at, at];
        arguments.extend(marks);
        Call { script: &self.scripts.refund, quotas: &self.refunded, arguments }
    }

    pub(crate) fn reset(&self) -> Call<'_> {
        Call { script: &self.scripts.reset, quotas: &self.none, arguments: Vec::new() }
    }

    /// Returns the limits as scripts over several limits read them.
    #[cfg(test)]
    pub(crate) fn general(&self) -> impl Iterator<Item = &[Arc<str>; 4]> {
        self.limits.iter().map(|limit| &limit.arguments)
    }
}
