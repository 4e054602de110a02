//! The fast path: rules in memory whose decision is all that there is to them.

use std::{borrow::Cow, iter, time::Instant};

use limiter_core::{Decision, Demand};
use smallvec::SmallVec;

use super::{
    after::After,
    common::Common,
    conclude::spread,
    decide::{Ask, Question},
    gate::Verdict,
};
use crate::{
    decisions::Decided,
    key::{Head, MissingKey},
    observe::Outcome,
    plan::Plan,
    rule::{Rule, at_once},
};

/// The plans of all rules, as they were configured.
pub(super) struct Fast(Box<[Plan]>);

impl Fast {
    /// Returns the fast path of a layer, `None` if one of its rules has none.
    pub(super) fn of(common: &Common<Rule>) -> Option<Self> {
        if common.skip.is_some() || common.is_chargeable {
            return None;
        }
        common.rules.iter().map(|rule| rule.fast_plan().cloned()).collect::<Option<_>>().map(Self)
    }

    /// Decides on a request. `None` if a rule was changed since, or has no key for the request: nothing is charged then.
    #[inline]
    pub(super) fn decide(&self, common: &Common<Rule>, head: Head<'_>) -> Option<Verdict<After>> {
        let Self(plans) = self;
        if common.rules.iter().any(|rule| rule.spec().live.was_changed.get()) {
            return None;
        }
        let ([plan], [rule]) = (&**plans, &*common.rules) else {
            return decide_together(plans, common, head);
        };
        let (decision, cost) = rule.check_fast(plan, head)?;
        let decided = |decision| Decided { rule, plan, decision, cost };
        Some(match decision.is_admitted() {
            true => Verdict::Forward(After::plain(common, iter::once(decided(&decision)))),
            false => Verdict::Answer(common.refuse_by(decided(&spread(decision)), head)),
        })
    }
}

/// Decides on a request by several rules.
fn decide_together(
    plans: &[Plan],
    common: &Common<Rule>,
    head: Head<'_>,
) -> Option<Verdict<After>> {
    let mut asked = SmallVec::<[(&Rule, &Plan); 4]>::new();
    let mut demands = SmallVec::<[Demand<'_>; 4]>::new();
    let mut skipped = SmallVec::<[&Rule; 4]>::new();
    for (rule, plan) in common.rules.iter().zip(plans) {
        match rule.spec().key.key(head) {
            Ok(key) => {
                let demand = Demand::new(plan.limiter(), key, rule.cost_of(head));
                demands.push(demand.without_receipt());
                asked.push((rule, plan));
            }
            Err(MissingKey::Skipped) => skipped.push(rule),
            Err(_) => return None,
        }
    }
    let is_observed = common.rules.iter().any(|rule| rule.spec().is_observed());
    let asked_at = is_observed.then(Instant::now);
    let joint = at_once(limiter_core::decide(&demands))?.ok()?;
    let elapsed = asked_at.map(|asked_at| asked_at.elapsed());
    let decisions = (0..joint.len()).map(|place| joint.decision(place));
    let decisions: SmallVec<[Decision; 4]> = decisions.collect::<Option<_>>()?;
    skipped.iter().for_each(|rule| rule.report_not_asked(Outcome::Bypassed, head));
    let answers = || asked.iter().zip(&demands).zip(&decisions);
    if joint.is_admitted() {
        let decided = answers().map(|((&(rule, plan), demand), decision)| Decided {
            rule,
            plan,
            decision,
            cost: demand.cost(),
        });
        if is_observed {
            for (decided, demand) in decided.clone().zip(&demands) {
                decided.report(Outcome::Allowed, demand.key(), elapsed, head);
            }
        }
        return Some(Verdict::Forward(After::plain(common, decided)));
    }
    let asks = answers().map(|((&(rule, plan), demand), decision)| Ask {
        answer: Some(Ok(*decision)),
        ..Ask::new(rule, Cow::Borrowed(plan), demand.key().clone(), demand.cost())
    });
    let refusal = at_once(Question::answered(asks.collect(), elapsed).conclude(head))?;
    refusal.err().map(|refused| Verdict::Answer(common.refuse(&refused, head)))
}
