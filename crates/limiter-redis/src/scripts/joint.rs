//! Several demands in one call of the script `policy`: all are charged, or none.

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

/// Reads a refusal. The script replies with the longest wait and the number of its limit; that a limit of another
/// demand refuses shows by what it has left, and it waits no longer than that, and until it has recovered.
fn refused(
    demands: &[JointDemand<'_>],
    usages: Vec<Vec<Usage>>,
    wait: i64,
    number: i64,
) -> Option<JointReply> {
    let (longest_wait, mut place) =
        (self::wait(wait)?, usize::try_from(number.checked_sub(1)?).ok()?);
    let (mut replies, mut longest) = (Vec::with_capacity(demands.len()), None);
    for (index, (demand, usages)) in demands.iter().zip(usages).enumerate() {
        let cost = demand.cost.get();
        let decision = if longest.is_none() && place < usages.len() {
            longest = Some(index);
            Decision::refused(*usages.get(place)?, longest_wait)
        } else {
            place = place.wrapping_sub(if longest.is_none() { usages.len() } else { 0 });
            match usages
                .iter()
                .copied()
                .filter(|usage| usage.remaining() < cost)
                .max_by_key(Usage::reset_after)
            {
                None => Decision::admitted(Usage::fewest_remaining(usages)),
                Some(usage) => {
                    let reset = usage.reset_after();
                    let wait = longest_wait.map_or(reset, |longest| longest.min(reset));
                    Decision::refused(usage, (cost <= usage.burst()).then_some(wait))
                }
            }
        };
        replies.push(CheckReply { decision, charged: None });
    }
    longest.map(|longest| JointReply { replies, longest: Some(longest) })
}
