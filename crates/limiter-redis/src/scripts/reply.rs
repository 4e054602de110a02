//! What the replies of scripts mean. Each script's header tells its replies.

use std::time::Duration;

use limiter_core::{Cost, Decision, Usage};

use super::{Charged, Gcra, Single, Taken, limit::argument};

pub(super) fn taken(limits: &[Single], numbers: &[i64], cost: Cost) -> Option<Taken> {
    if let [Single { gcra: Some(gcra), .. }] = limits
        && *numbers.first()? > 0
    {
        return admitted_by_gcra(gcra, numbers, cost);
    }
    if *numbers.first()? == 0 {
        let Refused { wait, index, usages } = Refused::read(limits, numbers)?;
        let decision = Decision::refused(*usages.get(index)?, wait);
        return Some(Taken { decision, charged: None });
    }
    let (usages, rest) = numbers.split_at_checked(limits.len() * 2)?;
    let decision = Decision::admitted(Usage::of_fewest_left(read_usages(limits, usages)?));
    let charged = match *rest {
        [] => None,
        [delay, taken_at, ref marks @ ..] if marks.len() == limits.len() => Some(Charged {
            cost: argument(cost),
            taken_at,
            delay: u64::try_from(delay).ok()?,
            marks: marks.to_vec(),
        }),
        _ => return None,
    };
    Some(Taken { decision, charged })
}

pub(super) fn peeked(limits: &[Single], numbers: &[i64]) -> Option<Usage> {
    Some(Usage::of_fewest_left(Refused::read(limits, numbers)?.usages))
}

/// A refusal or a peek.
struct Refused {
    /// `None` for ever.
    wait: Option<Duration>,
    /// The limit that has it.
    index: usize,
    usages: Vec<Usage>,
}

impl Refused {
    fn read(limits: &[Single], numbers: &[i64]) -> Option<Self> {
        let (wait, rest) = match *numbers {
            [0, wait, ref rest @ ..] => (wait, rest),
            _ => return None,
        };
        let wait = if wait == -1 { None } else { Some(micros(wait)?) };
        let (index, usages) = match *rest {
            ref usages if limits.len() == 1 => (0, usages),
            [number, ref usages @ ..] => (usize::try_from(number.checked_sub(1)?).ok()?, usages),
            [] => return None,
        };
        Some(Self { wait, index, usages: read_usages(limits, usages)? })
    }
}

fn read_usages(limits: &[Single], numbers: &[i64]) -> Option<Vec<Usage>> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if pairs.len() != limits.len() || !rest.is_empty() {
        return None;
    }
    let usages =
        limits.iter().zip(pairs).enumerate().map(|(index, (limit, &[reset, remaining]))| {
            let (reset, remaining) = (u64::try_from(reset).ok()?, u64::try_from(remaining).ok()?);
            Some(limit.usage(reset, remaining).of_limit(index))
        });
    usages.collect()
}

/// GCRA alone replies to an admission with the debt.
fn admitted_by_gcra(gcra: &Gcra, numbers: &[i64], cost: Cost) -> Option<Taken> {
    let (debt, charged) = match *numbers {
        [debt] => (debt, None),
        [debt, delay, taken_at] => {
            let delay = u64::try_from(delay).ok()?;
            let cost = argument(cost);
            (debt, Some(Charged { cost, taken_at, delay, marks: vec![debt] }))
        }
        _ => return None,
    };
    let usage = gcra.usage(u64::try_from(debt).ok()?);
    Some(Taken { decision: Decision::admitted(usage), charged })
}

fn micros(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_micros)
}
