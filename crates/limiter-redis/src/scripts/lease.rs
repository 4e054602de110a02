//! The script `lease`.

use super::{
    argument::{counted, exact, number},
    charge::{Charge, Charged},
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

impl Plan {
    /// Returns the call of the script for checks.
    pub(super) fn lease_call<'a>(
        &self,
        checks: impl Iterator<Item = (&'a Self, Charge)>,
    ) -> ScriptCall {
        let mut arguments = Vec::new();
        for (plan, Charge { cost, wanted, .. }) in checks {
            arguments.extend(plan.limits.iter().flat_map(|limit| limit.words.iter().cloned()));
            let term = plan.lease.map_or(0, |terms| terms.term);
            arguments.extend([counted(cost), exact(wanted), exact(term)].map(number));
        }
        ScriptCall::of(&self.scripts.lease, arguments)
    }

    /// Returns what the reply to a check means, which may have become a lease; `None` if it can't be one.
    pub(super) fn leased(&self, numbers: &[i64], charge: Charge) -> Option<CheckReply> {
        let (limit, cost) = (self.limits.first()?, counted(charge.cost));
        let mut reply = match *numbers {
            [ADMITTED, reset, left, permits, taken_at, mark, ..] if permits >= cost => {
                let terms = self.lease.filter(|_| permits > cost);
                let length = terms.map_or(0, |terms| terms.charged_ahead());
                let marks = vec![mark];
                let charged = Charged { cost: permits, taken_at, delay: 0, marks, length };
                CheckReply::admitted(usage(limit, reset, left)?, Some(charged))
            }
            [REFUSED, reset, left, wait, ..] => {
                CheckReply::refused(usage(limit, reset, left)?, self::wait(wait)?)?
            }
            _ => return None,
        };
        let decided = if reply.decision.is_admitted() { 6 } else { 4 };
        reply.ahead = match *numbers.get(decided..)? {
            [] => None,
            [permits, taken_at, mark, delay] if permits > cost && delay > 0 => {
                let (delay, length) = (delay.unsigned_abs(), self.lease?.charged_ahead());
                Some(Charged { cost: permits, taken_at, delay, marks: vec![mark], length })
            }
            _ => return None,
        };
        Some(reply)
    }
}
