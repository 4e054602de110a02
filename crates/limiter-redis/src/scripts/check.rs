//! Checks: the script that decides one, its call, and what its reply means.

use std::time::Duration;

use super::{
    charge::{Charge, Route},
    own::{own_call, own_reply},
    plan::Plan,
    policy::{Ask, Demand, PolicyReply, PolicyRequest},
    reply::CheckReply,
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
                PolicyReply::read(&demand, charge.request(), numbers)?.replies.pop()
            }
        }
    }
}
