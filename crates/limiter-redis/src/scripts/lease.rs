//! The script `lease`.

use std::time::Duration;

use limiter_core::Usage;

use super::{
    argument::{counted, exact, number},
    charge::{Charge, Charged},
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

/// What the script replied for a key.
enum LeaseReply {
    /// The cost was charged, or a lease of more permits.
    Charged {
        usage: Usage,
        permits: i64,
        taken_at: i64,
        mark: i64,
    },
    Refused(Usage, Option<Duration>),
}

impl LeaseReply {
    fn read(plan: &Plan, numbers: &[i64]) -> Option<Self> {
        let limit = plan.limits.first()?;
        match *numbers {
            [ADMITTED, reset, left, permits, taken_at, mark] => {
                let usage = usage(limit, reset, left)?;
                Some(Self::Charged { usage, permits, taken_at, mark })
            }
            [REFUSED, reset, left, wait] => {
                Some(Self::Refused(usage(limit, reset, left)?, self::wait(wait)?))
            }
            _ => None,
        }
    }
}

impl Plan {
    pub(super) fn lease_call<'a>(
        &self,
        checks: impl Iterator<Item = (&'a Self, Charge)>,
    ) -> ScriptCall {
        let mut arguments = Vec::new();
        for (plan, Charge { cost, wanted, .. }) in checks {
            arguments.extend(plan.limits.iter().flat_map(|limit| limit.arguments.iter().cloned()));
            let term = plan.lease.map_or(0, |terms| terms.term);
            arguments.extend([counted(cost), exact(wanted), exact(term)].map(number));
        }
        ScriptCall::of(&self.scripts.lease, arguments)
    }

    pub(super) fn leased(&self, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
        let cost = counted(charge.cost);
        match LeaseReply::read(self, numbers)? {
            LeaseReply::Charged { permits, .. } if permits < cost => None,
            LeaseReply::Charged { usage, permits, taken_at, mark } => {
                let terms = self.lease.filter(|_| permits > cost);
                let length = terms.map_or(0, |terms| terms.charged_ahead());
                let marks = vec![mark];
                let charged = Charged { cost: permits, taken_at, delay: 0, marks, length };
                Some(CheckReply::admitted(usage, Some(charged)))
            }
            LeaseReply::Refused(usage, wait) => CheckReply::refused(usage, wait),
        }
    }
}
