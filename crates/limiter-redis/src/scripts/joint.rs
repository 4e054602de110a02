//! Several demands in one call of the script `policy`: all are charged, or none.

use std::time::Duration;

use limiter_core::{Cost, Decision, Usage};

use super::{
    check::{Charged, CheckReply},
    limit::argument,
    plan::Plan,
    reply::{ADMITTED, REFUSED, wait},
};
use crate::client::ScriptCall;

/// What is asked of a subject by all limits of a policy.
#[derive(Clone, Copy)]
pub(crate) struct JointDemand<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) cost: Cost,
    /// Whether the cost only has to fit, and is never charged.
    pub(crate) only_asks: bool,
}

/// What the script replied to a list of demands.
#[derive(Debug)]
pub(crate) struct JointReply {
    /// One for each demand, in their order.
    pub(crate) replies: Vec<CheckReply>,
    /// The demand of a refusal that waits the longest, and whose wait is exact.
    pub(crate) longest: Option<usize>,
}

/// Returns the call that charges all demands now, with receipts, or none. The keys are added to it.
pub(crate) fn joint_call(demands: &[JointDemand<'_>]) -> Option<ScriptCall> {
    let scripts = &demands.first()?.plan.scripts;
    let limits = demands.iter().map(|demand| demand.plan.limits.len()).sum::<usize>();
    let mut texts = vec![limits.to_string().into(), "0".into()];
    for JointDemand { plan, cost, only_asks } in demands {
        let cost = if *only_asks { -argument(*cost) } else { argument(*cost) };
        for limit in &plan.demands {
            texts.extend(limit.iter().cloned().chain([cost.to_string().into()]));
        }
    }
    Some(ScriptCall::of(&scripts.policy, texts.into(), Vec::new()))
}

/// Returns what the numbers of a reply mean, `None` if it can't be one or contradicts itself.
pub(crate) fn joint_reply(demands: &[JointDemand<'_>], numbers: &[i64]) -> Option<JointReply> {
    let (&flag, mut rest) = numbers.split_first()?;
    let mut usages = Vec::with_capacity(demands.len());
    for JointDemand { plan, .. } in demands {
        let (of_demand, others) = rest.split_at_checked(2 * plan.limits.len())?;
        usages.push(plan.usages(of_demand)?);
        rest = others;
    }
    match (flag, rest) {
        (ADMITTED, &[0, taken_at, ref marks @ ..]) => {
            let mut marks = marks;
            let mut replies = Vec::with_capacity(demands.len());
            for (demand, usages) in demands.iter().zip(usages) {
                let (own, others) = marks.split_at_checked(demand.plan.limits.len())?;
                marks = others;
                let (cost, marks) = (argument(demand.cost), own.to_vec());
                let charged = Charged { cost, taken_at, delay: 0, marks, length: 0 };
                let decision = Decision::admitted(Usage::fewest_remaining(usages));
                let charged = (!demand.only_asks).then_some(charged);
                replies.push(CheckReply { decision, charged });
            }
            marks.is_empty().then_some(JointReply { replies, longest: None })
        }
        (REFUSED, &[wait, number]) => refused(demands, usages, wait, number),
        _ => None,
    }
}

/// Reads a refusal: the longest wait, and the number of its limit, counted from 1 through all demands.
fn refused(
    demands: &[JointDemand<'_>],
    usages: Vec<Vec<Usage>>,
    wait: i64,
    number: i64,
) -> Option<JointReply> {
    let (wait, number) = (self::wait(wait)?, usize::try_from(number).ok()?);
    let (mut replies, mut longest, mut limits) = (Vec::with_capacity(demands.len()), None, 1);
    for (index, (demand, usages)) in demands.iter().zip(usages).enumerate() {
        let waits_longest = number.checked_sub(limits).and_then(|place| usages.get(place));
        limits += usages.len();
        let decision = match waits_longest {
            Some(usage) => {
                longest = Some(index);
                Decision::refused(*usage, wait)
            }
            None => decision_beside(wait, usages, demand.cost),
        };
        replies.push(CheckReply { decision, charged: None });
    }
    longest.map(|longest| JointReply { replies, longest: Some(longest) })
}

/// Returns the decision on a demand beside the one with the `longest` wait. It refuses if fewer permits remain than its
/// cost. The script does not reply with its wait, so this is an upper bound: the shorter of the longest wait and the
/// time until the key has recovered.
fn decision_beside(longest: Option<Duration>, usages: Vec<Usage>, cost: Cost) -> Decision {
    let refusing = usages.iter().filter(|usage| usage.remaining() < cost.get());
    let Some(usage) = refusing.copied().max_by_key(Usage::reset_after) else {
        return Decision::admitted(Usage::fewest_remaining(usages));
    };
    let reset = usage.reset_after();
    let wait = longest.map_or(reset, |longest| longest.min(reset));
    Decision::refused(usage, (cost.get() <= usage.burst()).then_some(wait))
}
