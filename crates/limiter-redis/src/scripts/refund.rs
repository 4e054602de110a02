//! The script `refund`.

use bytes::Bytes;

use super::{
    argument::{exact, number},
    charge::Charged,
    plan::Plan,
};

impl Plan {
    /// Adds the arguments of the call that gives back `permits` of a charge by this policy.
    pub(crate) fn add_refund(&self, charged: &Charged, permits: u64, arguments: &mut Vec<Bytes>) {
        let Charged { cost, taken_at, delay, ref marks, length } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        arguments.extend([permits, cost, taken_at, at, length].map(number));
        for (limit, mark) in self.limits.iter().zip(marks) {
            let span = limit.gcra.map_or(0, |gcra| exact(gcra.span));
            arguments.extend(limit.words.iter().cloned().chain([number(*mark), number(span)]));
        }
    }
}
