//! Checks: the script that decides one, its call, and what its reply means. The scripts `gcra`, `window` and `log` check
//! subjects by one limit each.

use std::time::Duration;

use bytes::Bytes;

use super::{
    ScriptLimit, Scripts,
    charge::{Charge, Route},
    list::{Ask, Demand, ListReply, ListRequest},
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

impl Route {
    /// Returns the call to which requests are added.
    pub(crate) fn begin(self) -> ScriptCall {
        let scripts = Scripts::shared();
        match self {
            Self::Own(kind) => ScriptCall::of(kind.script(scripts), vec![kind.head()]),
            Self::Lease => ScriptCall::of(&scripts.lease, Vec::new()),
            Self::List => ScriptCall::of(&scripts.list, Vec::new()),
        }
    }
}

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

    /// Adds the arguments of a check to a call of its route.
    pub(crate) fn add_check(&self, charge: Charge, arguments: &mut Vec<Bytes>) {
        match (charge.route, self.limits.as_slice()) {
            (Route::Own(_), [limit]) => limit.add_own_arguments(charge.cost, arguments),
            (Route::Lease, [limit]) => self.add_lease(limit, charge, arguments),
            _ => charge.request().add(&[Demand::charge(self, charge.cost)], arguments),
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
