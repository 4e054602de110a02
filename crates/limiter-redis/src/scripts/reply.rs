//! The numbers that the replies of several scripts have in common. The header of each script describes its replies.

use std::time::Duration;

use limiter_core::{Cost, Decision, Usage};

use super::{ScriptLimit, argument::micros, charge::Charged, limit::Kind, plan::Plan};

/// The first number of most replies.
pub(super) const REFUSED: i64 = 0;
pub(super) const ADMITTED: i64 = 1;

/// The wait of a cost that never fits.
const NEVER: i64 = -1;

/// What a script replied to a demand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckReply {
    pub(crate) decision: Decision,
    /// Of an admission for which a receipt was wanted.
    pub(crate) charged: Option<Charged>,
    /// A lease that begins later, which was granted although the demand was refused or brought few permits.
    pub(crate) ahead: Option<Charged>,
}

impl CheckReply {
    pub(super) const fn admitted(usage: Usage, charged: Option<Charged>) -> Self {
        Self { decision: Decision::admitted(usage), charged, ahead: None }
    }

    /// Returns a refusal, `None` if the cost does not have to wait.
    pub(super) fn refused(usage: Usage, wait: Option<Duration>) -> Option<Self> {
        let decision = Decision::refused(usage, wait);
        (wait != Some(Duration::ZERO)).then_some(Self { decision, charged: None, ahead: None })
    }
}

impl Plan {
    /// Returns for how long no `cost` fits, which is more than what is left, if this usage says that: a counter's does not.
    pub(crate) fn wait_after(&self, usage: &Usage, cost: Cost) -> Option<Duration> {
        let reset = usage.reset_after();
        match self.limits.as_slice() {
            [ScriptLimit { gcra: Some(gcra), .. }] => {
                gcra.wait(micros(reset) * gcra.scale, cost.get())
            }
            [limit] if matches!(limit.kind, Kind::Fixed | Kind::Aligned) => Some(reset),
            _ => None,
        }
    }
}

/// Reads the time until a limit is fresh, and the permits that it has left.
pub(super) fn usage(limit: &ScriptLimit, reset: i64, left: i64) -> Option<Usage> {
    let reset = Duration::from_micros(u64::try_from(reset).ok()?);
    Some(Usage::new(limit.largest, u64::try_from(left).ok()?, reset))
}

/// Reads a wait, for ever as `None`.
pub(super) fn wait(number: i64) -> Option<Option<Duration>> {
    if number == NEVER {
        return Some(None);
    }
    Some(Some(Duration::from_micros(u64::try_from(number).ok()?)))
}
