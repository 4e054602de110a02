//! The scripts of a policy, and what they are called with.

use std::{sync::Arc, time::Duration};

use fred::bytes::Bytes;
use limiter_core::{Cost, Decision, Policy};

use super::{Scripts, Single, limit::argument};
use crate::client::ScriptCall;

/// A policy, as the server's scripts apply it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Single>,
    scripts: Scripts,
    /// The quotas as the check script reads them.
    quotas: Arc<[Bytes]>,
    /// The quotas as the refund script reads them.
    refunded: Arc<[Bytes]>,
    longest_delay: Duration,
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
        let bytes = |text: &String| Bytes::from(text.clone());
        let general = limits.iter().flat_map(|limit| &limit.arguments).map(bytes);
        let count = Bytes::from(limits.len().to_string());
        let mut refunded: Arc<[_]> = [count].into_iter().chain(general).collect();
        let mut quotas = Arc::clone(&refunded);
        if let [limit] = limits.as_slice() {
            quotas = limit.alone().iter().map(bytes).collect();
            if limit.form().files().refund.is_some() {
                refunded = Arc::clone(&quotas);
            }
        }
        let longest_delay = limits.iter().map(|limit| limit.longest_delay).min();
        Self {
            scripts: Scripts::new(prelude, &limits),
            limits,
            quotas,
            refunded,
            longest_delay: longest_delay.unwrap_or_default(),
        }
    }

    /// Returns the call that takes `cost` now, without a receipt.
    pub(crate) fn check(&self, cost: Cost) -> ScriptCall {
        // A cost of one is no argument, because a server takes longer for each: `bench redis`.
        let cost = if cost == Cost::ONE { Vec::new() } else { vec![argument(cost)] };
        ScriptCall::of(&self.scripts.check, &self.quotas, cost)
    }

    /// Returns the call that takes costs now, each of a key of its own, without receipts.
    pub(crate) fn checks(&self, costs: &[Cost]) -> ScriptCall {
        if let &[cost] = costs {
            return self.check(cost);
        }
        let arguments = costs.iter().copied().map(argument).collect();
        ScriptCall::of(&self.scripts.many, &self.quotas, arguments)
    }

    /// Returns the call that takes `cost` `within` some time, with a receipt.
    pub(crate) fn take(&self, cost: Cost, within: Duration) -> ScriptCall {
        let within = within.min(self.longest_delay).as_micros();
        let within = i64::try_from(within).unwrap_or(i64::MAX);
        let arguments = vec![argument(cost), within];
        ScriptCall::of(&self.scripts.check, &self.quotas, arguments)
    }

    pub(crate) fn peek(&self) -> ScriptCall {
        let call = ScriptCall::of(&self.scripts.check, &self.quotas, vec![0]);
        ScriptCall { read_only: true, ..call }
    }

    /// Returns the call that gives back `permits` of a charge by this policy.
    pub(crate) fn refund(&self, charged: &Charged, permits: u64) -> ScriptCall {
        let Charged { cost, taken_at, delay, ref marks } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let mut arguments = vec![permits, cost, taken_at, at];
        arguments.extend(marks);
        ScriptCall::of(&self.scripts.refund, &self.refunded, arguments)
    }

    pub(crate) fn reset(&self) -> ScriptCall {
        ScriptCall::of(&self.scripts.reset, &[].into(), Vec::new())
    }

    /// Returns the limits as scripts over several limits read them.
    #[cfg(test)]
    pub(crate) fn general(&self) -> impl Iterator<Item = &[String; 4]> {
        self.limits.iter().map(|limit| &limit.arguments)
    }
}
