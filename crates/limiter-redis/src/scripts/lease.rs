//! The script `lease`.

use bytes::Bytes;

use super::{
    ScriptLimit,
    argument::{counted, exact, number},
    charge::{Charge, Charged},
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};

impl Plan {
    /// Adds the arguments of a check under the only limit.
    pub(super) fn add_lease(
        &self,
        limit: &ScriptLimit,
        Charge { cost, wanted, .. }: Charge,
        arguments: &mut Vec<Bytes>,
    ) {
        arguments.extend(limit.words.iter().cloned());
        let term = self.lease.map_or(0, |terms| terms.term);
        arguments.extend([counted(cost), exact(wanted), exact(term)].map(number));
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
