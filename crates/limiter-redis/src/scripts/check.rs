//! Checks: the script that decides one, its call, and what its reply means. The scripts `gcra`, `window` and `log` check
//! subjects by one limit each.

use std::time::Duration;

use super::{
    ScriptLimit, Scripts,
    charge::{Charge, Route},
    limit::Kind,
    list::{Ask, Demand, ListReply, ListRequest},
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

impl Charge {
    /// Returns how the script `list` charges it. A receipt is for permits that are spent later.
    const fn request(&self) -> ListRequest {
        match self.wanted {
            0 => ListRequest::Check,
            _ => ListRequest::Reserve(Ask::Within(Duration::ZERO)),
        }
    }
}

impl Plan {
    /// Returns the script for a check, which may become a lease of the permits that are `wanted`.
    pub(crate) const fn route(&self, wanted: u64) -> Route {
        match self.own {
            None => Route::List,
            Some(_) if wanted > 0 && self.lease.is_some() => Route::Lease,
            Some(kind) => Route::Own(kind),
        }
    }

    /// Returns the call of checks with the same route, each of a subject of its own.
    pub(crate) fn checks<'a>(
        &self,
        route: Route,
        checks: impl Iterator<Item = (&'a Self, Charge)>,
    ) -> ScriptCall {
        match route {
            Route::Own(kind) => own_call(&self.scripts, kind, checks),
            Route::Lease => self.lease_call(checks),
            Route::List => {
                let request =
                    |(plan, it): (_, Charge)| ([Demand::charge(plan, it.cost)], it.request());
                self.list_call(checks.map(request))
            }
        }
    }

    /// Returns what a reply to a check means, `None` if it can't be one or contradicts itself.
    pub(crate) fn checked(&self, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
        match charge.route {
            Route::Own(_) => own_reply(self.limits.first()?, numbers, charge),
            Route::Lease => self.leased(numbers, charge),
            Route::List => {
                let demand = [Demand::charge(self, charge.cost)];
                ListReply::read(&demand, charge.request(), numbers)?.0.pop()
            }
        }
    }
}

/// Returns the call of the script for limits of a kind.
fn own_call<'a>(
    scripts: &Scripts,
    kind: Kind,
    checks: impl Iterator<Item = (&'a Plan, Charge)>,
) -> ScriptCall {
    let mut arguments = vec![kind.head()];
    for (plan, charge) in checks {
        for limit in &plan.limits {
            limit.add_own_arguments(charge.cost, &mut arguments);
        }
    }
    ScriptCall::of(kind.script(scripts), arguments)
}

/// Returns what the reply of a limit's own script means, `None` if it can't be one or contradicts itself.
fn own_reply(limit: &ScriptLimit, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
    match (&limit.gcra, numbers) {
        (Some(gcra), &[debt]) if debt > 0 => {
            Some(CheckReply::admitted(gcra.usage(debt.unsigned_abs()), None))
        }
        // -1 less the debt that refuses the cost.
        (Some(gcra), &[number]) => {
            let debt = u64::try_from(number.checked_add(1)?.checked_neg()?).ok()?;
            CheckReply::refused(gcra.usage(debt), gcra.wait(debt, charge.cost.get()))
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
