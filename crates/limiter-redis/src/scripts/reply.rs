//! What the replies of scripts mean. The header of each script describes its replies.

use std::{borrow::Cow, time::Duration};

use limiter_core::{Cost, Decision, Usage};

use super::{
    Charged, CheckReply, Gcra, Plan, ScriptLimit,
    gcra::Debt,
    limit::{self, Family, argument},
};
use crate::client::ScriptReply;

/// Returns the numbers of a reply, and the text behind them, which says why a lost expiry was not
/// restored; `None` if it is no such reply.
pub(crate) fn numbers(reply: &ScriptReply) -> Option<(Cow<'_, [i64]>, Option<&str>)> {
    let ScriptReply::Array(parts) = reply else { return Some((reply.integers()?, None)) };
    match parts.as_slice() {
        [first, ScriptReply::Text(failed)] => Some((first.integers()?, Some(failed))),
        [numbers @ .., ScriptReply::Text(failed)] => {
            let numbers = ScriptReply::Array(numbers.to_vec());
            Some((numbers.integers()?.into_owned().into(), Some(failed)))
        }
        _ => Some((reply.integers()?, None)),
    }
}

impl Plan {
    /// Returns what a reply to a check means, `None` if it can't be one or contradicts itself.
    pub(crate) fn checked(&self, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
        let Some(gcra) = self.gcra_alone() else {
            return match *numbers {
                [reset, left, permits, now, mark] if reset > 0 => {
                    self.leased([reset, left], permits, now, mark)
                }
                _ => self.decided(numbers, cost),
            }
            .filter(|reply| reply.has_charged(cost));
        };
        let mut charged = None;
        let decision = match *numbers {
            [debt] if debt > 0 => Decision::admitted(gcra.usage(debt.unsigned_abs())),
            [debt, permits, now] if debt > 0 => {
                // A lease fitted when it was granted, so no other one is in its debt.
                let leases = if permits == argument(cost) { self.leases() } else { 0 };
                let marks = vec![debt];
                charged = Some(Charged { cost: permits, taken_at: now, delay: 0, marks, leases });
                Decision::admitted(gcra.usage(debt.unsigned_abs()))
            }
            _ => {
                let debt = gcra.debt(numbers)?;
                refused(gcra.usage_of(&debt), gcra.wait(&debt, cost.get()))?
            }
        };
        Some(CheckReply { decision, charged }).filter(|reply| reply.has_charged(cost))
    }

    /// Returns what the reply to a check means that may have become a lease of a window's permits.
    fn leased(&self, usage: [i64; 2], permits: i64, now: i64, mark: i64) -> Option<CheckReply> {
        let marks = vec![mark];
        let charged = Charged { cost: permits, taken_at: now, delay: 0, marks, leases: 0 };
        let decision = Decision::admitted(Usage::fewest_remaining(self.usages(&usage)?));
        Some(CheckReply { decision, charged: Some(charged) })
    }

    /// Returns for how long no `cost` fits after an admission that left this usage. A counter's usage does not say
    /// that, and zero is returned.
    pub(crate) fn wait_after(&self, usage: &Usage, cost: Cost) -> Duration {
        let reset = usage.reset_after();
        match self.limits.as_slice() {
            [ScriptLimit { gcra: Some(gcra), .. }] => {
                let ticks = limit::micros(reset) * gcra.scale;
                let debt = Debt { ticks, increment: gcra.increment, scale: gcra.scale };
                gcra.wait(&debt, cost.get()).unwrap_or_default()
            }
            [limit] if limit.family() == Family::Window && usage.remaining() < cost.get() => reset,
            _ => Duration::ZERO,
        }
    }

    /// Returns for how many microseconds leases hold permits that may be in the debt of a check.
    fn leases(&self) -> u64 {
        self.lease.map_or(0, |lease| lease.kept_in_debts())
    }

    /// Returns what a reply to a reservation means, `None` if it can't be one or contradicts itself.
    pub(crate) fn taken(&self, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
        let reply = self.decided(numbers, cost)?;
        (reply.charged.is_some() == reply.decision.is_admitted()).then_some(reply)
    }

    /// Reads an admission, with what was charged or without, or a refusal.
    fn decided(&self, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
        if *numbers.first()? == 0 {
            let (wait, index, usages) = self.refused(numbers)?;
            let decision = refused(*usages.get(index)?, wait)?;
            return Some(CheckReply { decision, charged: None });
        }
        let (usages, rest) = numbers.split_at_checked(self.limits.len() * 2)?;
        let decision = Decision::admitted(Usage::fewest_remaining(self.usages(usages)?));
        let charged = match *rest {
            [] => None,
            [delay, taken_at, ref marks @ ..] if marks.len() == self.limits.len() => {
                let (cost, delay) = (argument(cost), u64::try_from(delay).ok()?);
                let leases = self.leases();
                Some(Charged { cost, taken_at, delay, marks: marks.to_vec(), leases })
            }
            _ => return None,
        };
        Some(CheckReply { decision, charged })
    }

    /// Returns what a reply to a peek means, `None` if it can't be one.
    pub(crate) fn peeked(&self, numbers: &[i64]) -> Option<Usage> {
        if let Some(gcra) = self.gcra_alone() {
            return Some(gcra.usage_of(&gcra.debt(numbers)?));
        }
        let (_, _, usages) = self.refused(numbers)?;
        Some(Usage::fewest_remaining(usages))
    }

    /// Returns how many permits a refund gave back, `None` if the reply can't say so.
    pub(crate) fn refunded(&self, numbers: &[i64]) -> Option<u64> {
        let &[permits] = numbers else { return None };
        u64::try_from(permits).ok()
    }

    /// Reads a refusal or a peek: the wait, `None` for ever; the limit that has it; and the usages.
    fn refused(&self, numbers: &[i64]) -> Option<(Option<Duration>, usize, Vec<Usage>)> {
        let &[0, wait, ref rest @ ..] = numbers else { return None };
        let wait = if wait == -1 { None } else { Some(micros(wait)?) };
        // The scripts for one limit do not number it.
        let (index, usages) = match *rest {
            ref usages if usages.len() == 2 => (0, usages),
            [number, ref usages @ ..] => (usize::try_from(number.checked_sub(1)?).ok()?, usages),
            [] => return None,
        };
        Some((wait, index, self.usages(usages)?))
    }

    fn usages(&self, numbers: &[i64]) -> Option<Vec<Usage>> {
        let (pairs, rest) = numbers.as_chunks::<2>();
        if pairs.len() != self.limits.len() || !rest.is_empty() {
            return None;
        }
        let limits = self.limits.iter().zip(pairs).enumerate();
        let usages = limits.map(|(index, (limit, &[reset, remaining]))| {
            let usage = Usage::new(limit.largest, u64::try_from(remaining).ok()?, micros(reset)?);
            Some(usage.with_limit_index(index))
        });
        usages.collect()
    }
}

impl Gcra {
    /// Returns the debt of a refusal or a peek: `-1 - debt`, and the quota that wrote it if that is
    /// another one.
    fn debt(&self, numbers: &[i64]) -> Option<Debt> {
        let (debt, increment, scale) = match *numbers {
            [debt] => (debt, self.increment, self.scale),
            [debt, increment, scale] => {
                (debt, u64::try_from(increment).ok()?, u64::try_from(scale).ok()?)
            }
            _ => return None,
        };
        let ticks = u64::try_from(debt.checked_add(1)?.checked_neg()?).ok()?;
        (increment > 0 && scale > 0).then_some(Debt { ticks, increment, scale })
    }
}

impl CheckReply {
    /// Returns whether at least the cost was charged, if the reply says how much was.
    fn has_charged(&self, cost: Cost) -> bool {
        self.charged.as_ref().is_none_or(|charged| charged.cost >= argument(cost))
    }
}

/// Returns a refusal, `None` if the cost does not have to wait.
fn refused(usage: Usage, wait: Option<Duration>) -> Option<Decision> {
    (wait != Some(Duration::ZERO)).then(|| Decision::refused(usage, wait))
}

fn micros(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_micros)
}
