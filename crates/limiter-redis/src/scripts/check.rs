//! Checks: the script that decides one, its call, and what its reply means. The scripts `gcra`, `window`, `counter` and
//! `log` check keys by limits of their own family.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::Cost;

use super::{
    Script, ScriptLimit,
    argument::{counted, number},
    charge::{Charge, Route},
    plan::Plan,
    policy::{Ask, Demand, PolicyReply, PolicyRequest},
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

impl Charge {
    /// Returns how the script `policy` charges it. A receipt is for permits that are spent later.
    const fn request(&self) -> PolicyRequest {
        match self.wanted {
            0 => PolicyRequest::Check,
            _ => PolicyRequest::Reserve(Ask::Within(Duration::ZERO)),
        }
    }
}

impl Plan {
    /// Returns the script for a check, which may become a lease of the permits that are `wanted`.
    pub(crate) const fn route(&self, wanted: u64) -> Route {
        match self.own {
            None => Route::Policy,
            Some(_) if wanted > 0 && self.lease.is_some() => Route::Lease,
            Some(_) => Route::Own,
        }
    }

    /// Returns the call of checks with the same route, each of a key of its own and by a policy of the families of this
    /// one.
    pub(crate) fn checks<'a>(
        &self,
        route: Route,
        checks: impl Iterator<Item = (&'a Self, Charge)> + Clone,
    ) -> ScriptCall {
        match (route, &self.own) {
            (Route::Own, Some((script, _))) => own_call(script, checks),
            (Route::Lease, _) => self.lease_call(checks),
            (Route::Own | Route::Policy, _) => {
                let request =
                    |(plan, it): (_, Charge)| ([Demand::charge(plan, it.cost)], it.request());
                self.policy_call(checks.map(request))
            }
        }
    }

    /// Returns what a reply to a check means, `None` if it can't be one or contradicts itself.
    pub(crate) fn checked(&self, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
        match (charge.route, &self.own) {
            (Route::Own, Some(_)) => own_reply(self.limits.first()?, numbers, charge.cost),
            (Route::Lease, _) => self.leased(numbers, charge),
            (Route::Own | Route::Policy, _) => {
                let demand = [Demand::charge(self, charge.cost)];
                PolicyReply::read(&demand, charge.request(), numbers)?.0.pop()
            }
        }
    }
}

/// Returns the call of a family's script for checks by policies that it can apply.
fn own_call<'a>(
    script: &Script,
    checks: impl Iterator<Item = (&'a Plan, Charge)> + Clone,
) -> ScriptCall {
    let quotas = checks.clone().flat_map(|(plan, _)| plan.own.iter().flat_map(|(_, own)| own));
    let mut arguments: Vec<Bytes> = quotas.cloned().collect();
    // Costs of one are not sent, because a server takes longer for each argument: `bench redis`.
    if checks.clone().any(|(_, charge)| charge.cost != Cost::ONE) {
        arguments.extend(checks.map(|(_, charge)| number(counted(charge.cost))));
    }
    ScriptCall::of(script, arguments)
}

/// Returns what the reply of a family's script for a key means, `None` if it can't be one or contradicts itself.
fn own_reply(limit: &ScriptLimit, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
    match (&limit.gcra, numbers) {
        (Some(gcra), &[debt]) if debt > 0 => {
            Some(CheckReply::admitted(gcra.usage(debt.unsigned_abs()), None))
        }
        // -1 less the debt that refuses the cost.
        (Some(gcra), &[number]) => {
            let debt = u64::try_from(number.checked_add(1)?.checked_neg()?).ok()?;
            CheckReply::refused(gcra.usage(debt), gcra.wait(debt, cost.get()))
        }
        (None, &[ADMITTED, reset, left]) => {
            Some(CheckReply::admitted(usage(limit, reset, left)?, None))
        }
        (None, &[REFUSED, reset, left, wait]) => {
            CheckReply::refused(usage(limit, reset, left)?, self::wait(wait)?)
        }
        _ => None,
    }
}
