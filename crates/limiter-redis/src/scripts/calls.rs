//! The arguments of the scripts. The header of each script describes them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::Cost;

use super::{
    Script,
    check::{Ask, Charge, Charged, Route},
    limit::argument,
    plan::Plan,
};
use crate::client::ScriptCall;

/// A request without a receipt.
const CHECK: i64 = -1;
const UP_TO: i64 = -2;
const IN_ANY_CASE: i64 = -3;

/// What a request asks of a key by all limits of a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand<'a> {
    plan: &'a Plan,
    /// 0 to peek.
    cost: i64,
    /// Within how many microseconds a reservation may be due, or one of the numbers for other requests.
    within: i64,
}

impl Plan {
    /// Returns the call of several checks that have the route of the first one, each of a key of its own, and by
    /// policies of the families of this one.
    pub(crate) fn checks<'a>(
        &self,
        checks: impl Iterator<Item = (&'a Self, Charge)> + Clone,
    ) -> ScriptCall {
        let route = checks.clone().next().map_or(Route::Policy, |(_, charge)| charge.route);
        match (route, &self.own) {
            (Route::Own, Some((family, own))) => {
                self.own_call(family.script(&self.scripts), own, checks)
            }
            (Route::Lease, _) => self.lease_call(checks),
            (Route::Own | Route::Policy, _) => self.demand(checks.map(|(plan, charge)| Demand {
                plan,
                cost: argument(charge.cost),
                within: if charge.has_receipt() { 0 } else { CHECK },
            })),
        }
    }

    /// Returns the call of a family's own script.
    fn own_call<'a>(
        &self,
        script: &Script,
        own: &Arc<[Bytes]>,
        checks: impl Iterator<Item = (&'a Self, Charge)> + Clone,
    ) -> ScriptCall {
        // Costs of one are not sent, because a server takes longer for each argument: `bench redis`.
        let are_ones = checks.clone().all(|(_, charge)| charge.cost == Cost::ONE);
        let costs = checks.clone().filter(|_| !are_ones).map(|(_, charge)| argument(charge.cost));
        let costs = costs.collect();
        if checks.clone().nth(1).is_none() {
            return ScriptCall::of(script, Arc::clone(own), costs);
        }
        let quotas = checks.flat_map(|(plan, _)| plan.own.iter().flat_map(|(_, own)| own.iter()));
        ScriptCall::of(script, quotas.cloned().collect(), costs)
    }

    fn lease_call<'a>(&self, checks: impl Iterator<Item = (&'a Self, Charge)>) -> ScriptCall {
        let mut texts = Vec::new();
        for (plan, Charge { cost, wanted, .. }) in checks {
            texts.extend(plan.demands.iter().flatten().cloned());
            let term = plan.lease.map_or(0, |terms| terms.term);
            texts.extend([argument(cost), exact(wanted), exact(term)].map(number));
        }
        ScriptCall::of(&self.scripts.lease, texts.into(), Vec::new())
    }

    /// Returns what asks for `cost` with a receipt.
    pub(crate) fn reservation(&self, cost: Cost, ask: Ask) -> Demand<'_> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let within = match ask {
            Ask::Within(time) => exact(micros(time).min(self.longest_delay)),
            Ask::UpTo => UP_TO,
            Ask::InAnyCase => IN_ANY_CASE,
        };
        Demand { plan: self, cost: argument(cost), within }
    }

    /// Returns what asks how far the permits are used up.
    pub(crate) const fn peek(&self) -> Demand<'_> {
        Demand { plan: self, cost: 0, within: CHECK }
    }

    /// Returns the call of the script `policy`.
    pub(crate) fn demand<'a>(&self, demands: impl Iterator<Item = Demand<'a>>) -> ScriptCall {
        let mut texts = Vec::new();
        for Demand { plan, cost, within } in demands {
            texts.push(number(plan.demands.len()));
            texts.push(if within == CHECK { Bytes::from_static(b"-1") } else { number(within) });
            let cost = if cost == 1 { Bytes::from_static(b"1") } else { number(cost) };
            for limit in &plan.demands {
                texts.extend(limit.iter().cloned().chain([cost.clone()]));
            }
        }
        ScriptCall::of(&self.scripts.policy, texts.into(), Vec::new())
    }

    /// Returns the call that gives back `permits` of a charge by this policy.
    pub(crate) fn refund(&self, charged: &Charged, permits: u64) -> ScriptCall {
        let Charged { cost, taken_at, delay, ref marks, length } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let mut texts: Vec<_> = [permits, cost, taken_at, at, length].map(number).into();
        for (limit, mark) in self.demands.iter().zip(marks) {
            texts.extend(limit.iter().cloned().chain([number(mark)]));
        }
        ScriptCall::of(&self.scripts.refund, texts.into(), Vec::new())
    }

    /// Returns the call that deletes the keys.
    pub(crate) fn reset(&self) -> ScriptCall {
        ScriptCall::of(&self.scripts.reset, [].into(), Vec::new())
    }
}

/// Returns a number as scripts count it exactly.
fn exact(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(1 << 53)
}

fn number(number: impl ToString) -> Bytes {
    Bytes::from(number.to_string())
}
