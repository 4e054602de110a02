//! What the replies of scripts mean. The header of each script describes its replies.

use std::time::Duration;

use limiter_core::{Cost, Decision, Usage};

use super::{Charged, Plan, Single, Taken, limit::argument};

impl Plan {
    /// Returns what a reply to a check or a reservation means, `None` if it can't be one.
    pub(crate) fn taken(&self, numbers: &[i64], cost: Cost) -> Option<Taken> {
        if let ([Single { gcra: Some(gcra), .. }], &[debt]) = (&*self.limits, numbers) {
            // GCRA alone replies to a check with the debt.
            let debt = u64::try_from(debt).ok().filter(|debt| *debt > 0)?;
            return Some(Taken { decision: Decision::admitted(gcra.usage(debt)), charged: None });
        }
        if *numbers.first()? == 0 {
            let (wait, index, usages) = self.refused(numbers)?;
            let decision = Decision::refused(*usages.get(index)?, wait);
            return Some(Taken { decision, charged: None });
        }
        let (usages, rest) = numbers.split_at_checked(self.limits.len() * 2)?;
        let decision = Decision::admitted(Usage::of_fewest_left(self.usages(usages)?));
        let charged = match *rest {
            [] => None,
            [delay, taken_at, ref marks @ ..] if marks.len() == self.limits.len() => {
                let (cost, delay) = (argument(cost), u64::try_from(delay).ok()?);
                Some(Charged { cost, taken_at, delay, marks: marks.to_vec() })
            }
            _ => return None,
        };
        Some(Taken { decision, charged })
    }

    /// Returns what a reply to a peek means, `None` if it can't be one.
    pub(crate) fn peeked(&self, numbers: &[i64]) -> Option<Usage> {
        let (_, _, usages) = self.refused(numbers)?;
        Some(Usage::of_fewest_left(usages))
    }

    /// Returns how many permits a refund gave back, `None` if the reply can't tell.
    pub(crate) fn refunded(&self, numbers: &[i64]) -> Option<u64> {
        let &[permits] = numbers else { return None };
        u64::try_from(permits).ok()
    }

    /// Reads a refusal or a peek: the wait, `None` for ever; the limit that has it; and the usages.
    fn refused(&self, numbers: &[i64]) -> Option<(Option<Duration>, usize, Vec<Usage>)> {
        let &[0, wait, ref rest @ ..] = numbers else { return None };
        let wait = if wait == -1 { None } else { Some(micros(wait)?) };
        let (index, usages) = match *rest {
            ref usages if self.limits.len() == 1 => (0, usages),
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
            Some(usage.of_limit(index))
        });
        usages.collect()
    }
}

fn micros(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_micros)
}
