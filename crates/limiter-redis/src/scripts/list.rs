//! The script `list`: it decides on lists of demands, each by one or more limits.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Cost, Usage};

use super::{
    argument::{counted, exact, number},
    charge::Charged,
    plan::Plan,
    reply::{ADMITTED, CheckReply, REFUSED, usage, wait},
};

/// What is asked of a subject by all limits of a policy.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) cost: Cost,
    /// Whether the cost only has to fit, and is never charged.
    pub(crate) only_asks: bool,
}

/// What is to be done with a list of demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListRequest {
    /// Read how far their permits are used up.
    Peek,
    /// Charge them now, without receipts.
    Check,
    /// Charge them with receipts.
    Reserve(Ask),
}

/// When, and how much of its cost, a demand charges with a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// All of it, now or within some time.
    Within(Duration),
    /// As much as fits now.
    UpTo,
    /// All of it, whether or not it fits, as far as the state allows.
    InAnyCase,
}

/// What the script replied to a list of demands: a reply for each, in their order.
#[derive(Debug)]
pub(crate) struct ListReply(pub(crate) Vec<CheckReply>);

impl<'a> Demand<'a> {
    pub(crate) const fn charge(plan: &'a Plan, cost: Cost) -> Self {
        Self { plan, cost, only_asks: false }
    }

    /// Reads the time until each limit is fresh, and the permits that it has left.
    fn usages(&self, numbers: &[i64]) -> Option<Vec<Usage>> {
        let (pairs, _) = numbers.as_chunks::<2>();
        let limits = self.plan.limits.iter().zip(pairs).enumerate();
        let usages = limits.map(|(place, (limit, &[reset, left]))| {
            Some(usage(limit, reset, left)?.with_limit_index(place))
        });
        usages.collect()
    }
}

impl ListRequest {
    /// Adds the arguments of demands that are decided together.
    pub(crate) fn add(self, demands: &[Demand<'_>], arguments: &mut Vec<Bytes>) {
        arguments.extend([demands.len().to_string().into(), number(self.number(demands))]);
        for Demand { plan, cost, only_asks } in demands {
            let cost = match (self, only_asks) {
                (Self::Peek, _) => 0,
                (_, true) => -counted(*cost),
                (_, false) => counted(*cost),
            };
            arguments.extend([plan.limits.len().to_string().into(), number(cost)]);
            arguments.extend(plan.limits.iter().flat_map(|limit| limit.words.iter().cloned()));
        }
    }

    /// Returns the number that a request begins with.
    fn number(self, demands: &[Demand<'_>]) -> i64 {
        match self {
            Self::Reserve(Ask::Within(time)) => {
                let longest = demands.iter().map(|demand| demand.plan.longest_delay).min();
                let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                exact(micros.min(longest.unwrap_or(0)))
            }
            Self::Peek | Self::Check => -1,
            Self::Reserve(Ask::UpTo) => -2,
            Self::Reserve(Ask::InAnyCase) => -3,
        }
    }
}

impl Ask {
    /// Returns one of each variant, for tests that try them all. A new variant fails to compile here.
    #[cfg(test)]
    pub(crate) fn one_of_each() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::Within(Duration::MAX)), |last| match last {
            Self::Within(_) => Some(Self::UpTo),
            Self::UpTo => Some(Self::InAnyCase),
            Self::InAnyCase => None,
        })
    }

    /// Returns the cost that a refusal is about, of a request for `cost`.
    pub(crate) const fn refused_cost(self, cost: Cost) -> Cost {
        match self {
            Self::UpTo => Cost::ONE,
            Self::Within(_) | Self::InAnyCase => cost,
        }
    }

    /// Returns what was charged of a cost, and after which delay, by a number of the reply; `None` if it can't be.
    fn charged(self, number: i64, cost: i64) -> Option<(i64, u64)> {
        match self {
            Self::Within(_) => Some((cost, u64::try_from(number).ok()?)),
            Self::UpTo => (1..=cost).contains(&number).then_some((number, 0)),
            Self::InAnyCase => (0..=cost).contains(&number).then_some((number, 0)),
        }
    }
}

impl ListReply {
    /// Reads the reply to a request, `None` if it can't be one or contradicts itself.
    pub(crate) fn read(
        demands: &[Demand<'_>],
        request: ListRequest,
        numbers: &[i64],
    ) -> Option<Self> {
        let (&flag, mut rest) = numbers.split_first()?;
        let mut usages = Vec::with_capacity(demands.len());
        for demand in demands {
            let (of_demand, others) = rest.split_at_checked(2 * demand.plan.limits.len())?;
            usages.push(demand.usages(of_demand)?);
            rest = others;
        }
        match (request, flag, rest) {
            (ListRequest::Check, ADMITTED, []) => {
                let usages = usages.into_iter().map(Usage::fewest_remaining);
                let replies = usages.map(|usage| CheckReply::admitted(usage, None)).collect();
                Some(Self(replies))
            }
            (ListRequest::Reserve(ask), ADMITTED, &[number, taken_at, ref marks @ ..]) => {
                Self::charged(demands, usages, |cost| ask.charged(number, cost), taken_at, marks)
            }
            // A charge in any case is not refused.
            (ListRequest::Reserve(Ask::InAnyCase), ..) => None,
            (_, REFUSED, waits) => Self::refused(usages, waits),
            _ => None,
        }
    }

    fn charged(
        demands: &[Demand<'_>],
        usages: Vec<Vec<Usage>>,
        of: impl Fn(i64) -> Option<(i64, u64)>,
        taken_at: i64,
        mut marks: &[i64],
    ) -> Option<Self> {
        let mut replies = Vec::with_capacity(demands.len());
        for (demand, usages) in demands.iter().zip(usages) {
            let (own, others) = marks.split_at_checked(demand.plan.limits.len())?;
            marks = others;
            let (cost, delay) = of(counted(demand.cost))?;
            let charged = Charged { cost, taken_at, delay, marks: own.to_vec(), length: 0 };
            let charged = (cost > 0 && !demand.only_asks).then_some(charged);
            replies.push(CheckReply::admitted(Usage::fewest_remaining(usages), charged));
        }
        marks.is_empty().then_some(Self(replies))
    }

    /// Reads a refusal: the waits of all limits, of which at least one is not zero.
    fn refused(usages: Vec<Vec<Usage>>, mut waits: &[i64]) -> Option<Self> {
        let mut replies = Vec::with_capacity(usages.len());
        for usages in usages {
            let (own, others) = waits.split_at_checked(usages.len())?;
            waits = others;
            let own: Vec<_> = own.iter().map(|number| wait(*number)).collect::<Option<_>>()?;
            let limits = own.into_iter().zip(usages.iter().copied());
            let (wait, usage) = limits.max_by_key(|(wait, _)| wait.unwrap_or(Duration::MAX))?;
            let fits = || CheckReply::admitted(Usage::fewest_remaining(usages), None);
            replies.push(CheckReply::refused(usage, wait).unwrap_or_else(fits));
        }
        let refuses = replies.iter().any(|reply| !reply.decision.is_admitted());
        (refuses && waits.is_empty()).then_some(Self(replies))
    }
}

impl Plan {
    /// Returns what a reply to a peek means, `None` if it can't be one.
    pub(crate) fn peeked(&self, numbers: &[i64]) -> Option<Usage> {
        let (usages, _waits) =
            numbers.strip_prefix(&[REFUSED])?.split_at_checked(2 * self.limits.len())?;
        Demand::charge(self, Cost::ONE).usages(usages).map(Usage::fewest_remaining)
    }
}
