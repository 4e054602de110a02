//! The scripts `gcra`, `window`, `counter` and `log`, each of which checks keys by limits of its own family.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Cost, Usage};

use super::{
    Gcra, Script, ScriptLimit,
    argument::{counted, number},
    charge::Charge,
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};
use crate::client::ScriptCall;

/// What a script replied for a key.
enum OwnReply {
    Admitted(Usage),
    Refused(Usage, Option<Duration>),
}

impl OwnReply {
    fn read(limit: &ScriptLimit, numbers: &[i64], cost: Cost) -> Option<Self> {
        match (&limit.gcra, numbers) {
            (Some(gcra), &[number]) => Self::of_debt(gcra, number, cost),
            (None, &[ADMITTED, reset, left]) => Some(Self::Admitted(usage(limit, reset, left)?)),
            (None, &[REFUSED, reset, left, wait]) => {
                Some(Self::Refused(usage(limit, reset, left)?, self::wait(wait)?))
            }
            _ => None,
        }
    }

    /// Reads the debt after a charge, or -1 less the debt that refuses the cost.
    fn of_debt(gcra: &Gcra, number: i64, cost: Cost) -> Option<Self> {
        if number > 0 {
            return Some(Self::Admitted(gcra.usage(number.unsigned_abs())));
        }
        let debt = u64::try_from(number.checked_add(1)?.checked_neg()?).ok()?;
        Some(Self::Refused(gcra.usage(debt), gcra.wait(debt, cost.get())))
    }
}

/// Returns the call of a family's script for checks by policies that it can apply.
pub(super) fn own_call<'a>(
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

/// Returns what the reply for a key means, `None` if it can't be one or contradicts itself.
pub(super) fn own_reply(limit: &ScriptLimit, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
    match OwnReply::read(limit, numbers, cost)? {
        OwnReply::Admitted(usage) => Some(CheckReply::admitted(usage, None)),
        OwnReply::Refused(usage, wait) => CheckReply::refused(usage, wait),
    }
}
