//! The scripts `refund` and `reset`.

use super::{
    argument::{exact, number},
    charge::Charged,
    plan::Plan,
};
use crate::client::ScriptCall;

impl Plan {
    /// Returns the call that gives back `permits` of a charge by this policy.
    pub(crate) fn refund(&self, charged: &Charged, permits: u64) -> ScriptCall {
        let Charged { cost, taken_at, delay, ref marks, length } = *charged;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let at = taken_at.saturating_add_unsigned(delay);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let mut arguments: Vec<_> = [permits, cost, taken_at, at, length].map(number).into();
        for (limit, mark) in self.limits.iter().zip(marks) {
            let span = limit.gcra.map_or(0, |gcra| exact(gcra.span));
            arguments.extend(limit.words.iter().cloned().chain([number(*mark), number(span)]));
        }
        ScriptCall::of(&self.scripts.refund, arguments)
    }

    /// Returns how many permits a refund gave back, `None` if the reply can't say so.
    pub(crate) fn refunded(&self, numbers: &[i64]) -> Option<u64> {
        let &[permits] = numbers else { return None };
        u64::try_from(permits).ok()
    }

    /// Returns the call that deletes the keys.
    pub(crate) fn reset(&self) -> ScriptCall {
        ScriptCall::of(&self.scripts.reset, Vec::new())
    }
}
