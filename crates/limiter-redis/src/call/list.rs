//! A decision over several demands by the script `list`, with receipts. A reservation, and a peek, is one of a single demand.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{Cost, Timestamp, Usage};

use super::{
    deadline::Deadline,
    operation::Operation,
    reply::{ADMITTED, Charged, CheckReply, REFUSED, wait},
};
use crate::{
    client::{ScriptCall, ScriptReply, faults::Outcome},
    context::{Context, Settings},
    denials::{Denial, Denials, Ticket},
    events::Events,
    scripts::{Plan, Scripts, counted, exact, number},
};

/// What is to be done with a list of demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Read how far their permits are used up.
    Peek,
    /// Charge them now, without receipts.
    Check,
    /// Charge them with receipts, now or within some time.
    Within(Duration),
    /// The same, as much of the cost as fits now.
    UpTo,
    /// The same, whether or not it fits, as far as the state allows.
    InAnyCase,
}

/// Charges all demands or none.
pub(crate) struct Decide {
    pub(crate) first: Part,
    /// All demands, with the first.
    pub(crate) parts: Vec<Part>,
    pub(crate) ask: Ask,
    /// That of all that its caller does.
    pub(crate) deadline: Deadline,
}

/// A demand on one limiter.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) context: Arc<Context>,
    pub(crate) plan: Arc<Plan>,
    /// The key of the subject's hash.
    pub(crate) key: Bytes,
    pub(crate) cost: Cost,
    pub(crate) only_asks: bool,
    pub(crate) ticket: Ticket,
    /// For how long its denial is cached at most.
    pub(crate) denied_for: Duration,
}

impl Part {
    /// Returns a demand that is charged.
    pub(crate) fn new(context: &Arc<Context>, plan: &Arc<Plan>, key: Bytes, cost: Cost) -> Self {
        Self {
            ticket: context.denials.ticket(&key),
            context: Arc::clone(context),
            plan: Arc::clone(plan),
            key,
            cost,
            only_asks: false,
            denied_for: Denials::MAX_AGE,
        }
    }
}

impl Decide {
    fn demands(&self) -> Vec<Demand<'_>> {
        let cost =
            |part: &Part| if part.only_asks { -counted(part.cost) } else { counted(part.cost) };
        self.parts.iter().map(|part| (&*part.plan, cost(part))).collect()
    }

    /// Returns whether each wait is that of its demand alone. The longest may be paced by another demand.
    fn are_waits_exact(&self) -> bool {
        self.parts.len() == 1 || self.parts.iter().all(|part| part.plan.own.is_some())
    }
}

impl Operation for Decide {
    type Output = Vec<CheckReply>;

    fn key(&self) -> &Bytes {
        &self.first.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.first.context.events, self.first.plan.policy.name())
    }

    fn deadline(&self, _: &Settings, _: Timestamp) -> Deadline {
        self.deadline
    }

    fn begin(&self) -> ScriptCall {
        ScriptCall::of(&Scripts::shared().list, Vec::new())
    }

    fn add(&self, call: &mut ScriptCall) {
        for Part { plan, key, .. } in &self.parts {
            plan.add_keys(key, &mut call.keys);
        }
        self.ask.add(&self.demands(), &mut call.arguments);
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<Vec<CheckReply>> {
        read(self.ask, &self.demands(), &reply.integers()?)
    }

    fn note(&self, outcome: &Outcome<Vec<CheckReply>>, sent: Timestamp, is_late: bool) {
        let Ok(replies) = outcome else { return };
        let Self { parts, ask, .. } = self;
        let are_exact = self.are_waits_exact();
        for (part, reply) in parts.iter().zip(replies) {
            let Part { context, plan, key, cost, ticket, denied_for, .. } = part;
            let CheckReply { decision, charged, .. } = reply;
            let received = context.now();
            // A charge in any case decides nothing.
            if *ask != Ask::InAnyCase && !is_late && (charged.is_some() || !decision.is_admitted())
            {
                context.events.tally.decided(decision);
            }
            if !decision.is_admitted() && are_exact {
                // If nothing was taken, not even one permit fits.
                let cost = if *ask == Ask::UpTo { Cost::ONE } else { *cost };
                let denial = Denial { cost, decision: *decision, sent, received };
                let of = (key, &plan.policy);
                context.denials.insert(*denied_for, *ticket, of, denial);
            }
            if charged.is_some() {
                context.denials.charged(*ticket, key, received);
            }
        }
    }
}

/// The limits of a policy, and the cost that all of them decide on: below 0 if it only has to fit, and is never
/// charged.
type Demand<'a> = (&'a Plan, i64);

impl Ask {
    /// Adds the arguments of demands that are decided together.
    pub(crate) fn add(self, demands: &[Demand<'_>], arguments: &mut Vec<Bytes>) {
        let within = match self {
            Self::Within(time) => {
                let limits = demands.iter().flat_map(|(plan, _)| &plan.limits);
                let longest = limits.map(|limit| limit.longest_delay).min().unwrap_or_default();
                exact(u64::try_from(time.min(longest).as_micros()).unwrap_or(u64::MAX))
            }
            Self::Peek | Self::Check => -1,
            Self::UpTo => -2,
            Self::InAnyCase => -3,
        };
        arguments.extend([demands.len().to_string().into(), number(within)]);
        for (plan, cost) in demands {
            let cost = if self == Self::Peek { 0 } else { *cost };
            arguments.extend([plan.limits.len().to_string().into(), number(cost)]);
            arguments.extend(plan.limits.iter().flat_map(|limit| limit.words.iter().cloned()));
        }
    }

    /// Returns one of each variant that the script decides, for tests that try them all. A new variant fails to compile here.
    #[cfg(test)]
    pub(crate) fn one_of_each() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::Peek), |last| match last {
            Self::Peek => Some(Self::Check),
            Self::Check => Some(Self::Within(Duration::MAX)),
            Self::Within(_) => Some(Self::UpTo),
            Self::UpTo => Some(Self::InAnyCase),
            Self::InAnyCase => None,
        })
    }

    /// Returns how many permits of a cost were charged, and after which delay, by the number of a reply.
    fn charged(self, number: i64, cost: i64) -> Option<(u64, u64)> {
        let (number, cost) = (u64::try_from(number).ok()?, cost.unsigned_abs());
        match self {
            Self::Within(_) => Some((cost, number)),
            Self::UpTo => (1..=cost).contains(&number).then_some((number, 0)),
            Self::InAnyCase => (number <= cost).then_some((number, 0)),
            Self::Peek | Self::Check => None,
        }
    }
}

/// Returns what a reply means to each demand, `None` if it can't be one or contradicts itself.
pub(crate) fn read(ask: Ask, demands: &[Demand<'_>], numbers: &[i64]) -> Option<Vec<CheckReply>> {
    let (&flag, mut rest) = numbers.split_first()?;
    let mut all = Vec::with_capacity(demands.len());
    for (plan, _) in demands {
        let (of_demand, others) = rest.split_at_checked(2 * plan.limits.len())?;
        let (pairs, _) = of_demand.as_chunks::<2>();
        let limits = plan.limits.iter().zip(pairs).enumerate();
        let usages = limits.map(|(place, (limit, &[reset, left]))| {
            Some(limit.usage(reset, left)?.with_limit_index(place))
        });
        all.push(usages.collect::<Option<Vec<Usage>>>()?);
        rest = others;
    }
    let fewest = |usages| CheckReply::admitted(Usage::fewest_remaining(usages), None);
    match (ask, flag, rest) {
        // The reply to a peek is a refusal, whose waits say nothing.
        (Ask::Peek, REFUSED, _) | (Ask::Check, ADMITTED, []) => {
            Some(all.into_iter().map(fewest).collect())
        }
        // A peek is never admitted, and a charge in any case never refused.
        (Ask::Peek, ..) | (Ask::InAnyCase, REFUSED, _) => None,
        (_, ADMITTED, &[number, taken_at, ref marks @ ..]) => {
            admitted(demands, all, |cost| ask.charged(number, cost), (taken_at, marks))
        }
        (_, REFUSED, waits) => refused(all, waits),
        _ => None,
    }
}

fn admitted(
    demands: &[Demand<'_>],
    all: Vec<Vec<Usage>>,
    of: impl Fn(i64) -> Option<(u64, u64)>,
    (taken_at, mut marks): (i64, &[i64]),
) -> Option<Vec<CheckReply>> {
    let mut replies = Vec::with_capacity(demands.len());
    for ((plan, cost), usages) in demands.iter().zip(all) {
        let (own, others) = marks.split_at_checked(plan.limits.len())?;
        marks = others;
        let (permits, delay) = of(*cost)?;
        let (delay, marks) = (Duration::from_micros(delay), own.to_vec());
        let charged = Charged { permits, taken_at, delay, marks, length: 0 };
        let charged = (permits > 0 && *cost > 0).then_some(charged);
        replies.push(CheckReply::admitted(Usage::fewest_remaining(usages), charged));
    }
    marks.is_empty().then_some(replies)
}

/// Reads a refusal: the waits of all limits. At least one is not zero.
fn refused(all: Vec<Vec<Usage>>, mut waits: &[i64]) -> Option<Vec<CheckReply>> {
    let mut replies = Vec::with_capacity(all.len());
    for usages in all {
        let (own, others) = waits.split_at_checked(usages.len())?;
        waits = others;
        let own: Vec<_> = own.iter().map(|number| wait(*number)).collect::<Option<_>>()?;
        let limits = own.into_iter().zip(usages.iter().copied());
        let (wait, usage) = limits.max_by_key(|(wait, _)| wait.unwrap_or(Duration::MAX))?;
        let fits = || CheckReply::admitted(Usage::fewest_remaining(usages), None);
        replies.push(CheckReply::refused(usage, wait).unwrap_or_else(fits));
    }
    let refuses = replies.iter().any(|reply| !reply.decision.is_admitted());
    (refuses && waits.is_empty()).then_some(replies)
}
