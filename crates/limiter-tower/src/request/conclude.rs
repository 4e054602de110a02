//! What follows from the rules' answers.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use limiter_core::{Decision, Source};

use super::decide::{Ask, Question, refund};
use crate::{
    answer::{Reason, Refused},
    decisions::{Decided, PolicyDecision, Reported, is_public},
    key::Head,
    observe::{Event, Outcome, log},
    plan::Plan,
    rule::Blocking,
    settle::{Charged, send_strike},
};

impl<'k> Question<'k> {
    /// Returns the rules' answers to an admitted request, and reports them. If the request is not admitted, refunds what
    /// was charged. A rule that would have admitted a refused request reports nothing, because it has charged nothing.
    pub(super) async fn conclude(mut self, head: Head<'_>) -> Result<Vec<Ask<'k>>, Refused> {
        self.asks.iter_mut().for_each(Ask::conclude);
        let is_refused = self.asks.iter().any(Ask::is_refused);
        for ask in &mut self.asks {
            let has_failed = matches!(ask.answer, Some(Err(_)));
            let is_reported = |it: &Outcome| !is_refused || it.is_refusal() || has_failed;
            if let Some(outcome) = ask.outcome.filter(is_reported) {
                ask.report(outcome, self.elapsed, head);
                ask.strike(outcome).await;
            }
        }
        match refused(&self.asks) {
            None => Ok(self.asks),
            Some(refused) => {
                refund(&mut self.asks);
                Err(refused)
            }
        }
    }
}

impl Ask<'_> {
    /// Stores what became of the request under this rule, if it was asked.
    fn conclude(&mut self) {
        let Some(answer) = &self.answer else { return };
        let spec = self.rule.spec();
        self.outcome = Some(match answer {
            Err(error) => spec.failed(error, self.is_shadow),
            Ok(decision) => {
                if matches!(decision.source(), Source::State | Source::Lease) {
                    spec.store_decided();
                }
                match decision.is_admitted() {
                    true if self.waited.is_some() => Outcome::Delayed,
                    true => Outcome::Allowed,
                    false if self.is_shadow => Outcome::ShadowDenied,
                    false if self.is_blocked => Outcome::Blocked,
                    false => Outcome::Denied,
                }
            }
        });
    }

    /// Counts a refusal as a strike, if the rule blocks keys that are refused. A refusal because the table is full is not
    /// the key's fault. A block that begins with it is announced with it.
    async fn strike(&mut self, outcome: Outcome) {
        let Some(Blocking { blocks, strikes: None }) = &self.rule.settings.block else { return };
        let is_refused = matches!(outcome, Outcome::Denied | Outcome::ShadowDenied);
        if let Some(Ok(decision)) = &self.answer
            && is_refused
            && !self.is_blocked
            && decision.source() != Source::FullTable
        {
            let sent = send_strike(blocks, &self.key, self.rule);
            // What a shadow strikes delays no request.
            if !self.is_shadow
                && let Some(block) = sent.await
            {
                self.set_blocked(block);
            }
        }
    }

    fn report(&self, outcome: Outcome, elapsed: Option<Duration>, head: Head<'_>) {
        let answer = self.answer.as_ref().map(Result::as_ref);
        let (decision, error) = (answer.and_then(Result::ok), answer.and_then(Result::err));
        if let (Outcome::Denied | Outcome::Blocked, Some(decision)) = (outcome, decision) {
            log::refused(self.rule.name(), decision);
        }
        let spec = self.rule.spec();
        if spec.is_observed() {
            let event = spec.rate_event(&self.plan, outcome, head);
            spec.report(&Event { key: Some(&self.key), decision, error, elapsed, ..event });
        }
    }

    /// Returns what header fields report to clients, if they do.
    pub(crate) fn reported(&self) -> Option<Reported<'_>> {
        let Some(Ok(decision)) = &self.answer else { return None };
        let disclosure = self.rule.spec().disclosure;
        let is_public = is_public(disclosure, self.is_shadow, decision);
        let is_asked_only = self.rule.settings.charge_after.is_some() && decision.is_admitted();
        let charged = if is_asked_only { 0 } else { self.cost.get() };
        is_public.then_some(Reported { plan: &self.plan, decision, cost: self.cost, charged })
    }

    /// Returns the decision, `None` if the store failed.
    pub(crate) fn decided(&self) -> Option<PolicyDecision> {
        let decision = self.answer.as_ref()?.as_ref().ok()?;
        let Self { rule, plan, cost, .. } = self;
        let decided = PolicyDecision::of(Decided { rule, plan, decision, cost: *cost });
        let is_asked_only = self.rule.settings.charge_after.is_some();
        Some(PolicyDecision {
            charged: if is_asked_only { 0 } else { decided.charged },
            is_shadow: self.is_shadow,
            is_blocked: self.is_blocked,
            waited: self.waited,
            ..decided
        })
    }

    /// Returns what may be settled: by the rule, or by a handler if it `keeps_charges`.
    pub(crate) fn charged(self, keeps_charges: bool) -> Option<Charged> {
        let Self { rule, plan, key, receipt, answer, .. } = self;
        let settles = rule.settings.settles();
        let has_subject = receipt.is_some() || settles && matches!(answer, Some(Ok(_)));
        (has_subject && (settles || keeps_charges)).then(|| Charged {
            rule: rule.clone(),
            plan: plan.into_owned(),
            key: key.into_owned(),
            receipt,
            kept: None,
        })
    }
}

/// Returns the refusal of a request, `None` if no rule refuses it: by quotas, or else for the first other reason.
fn refused(asks: &[Ask<'_>]) -> Option<Refused> {
    let is_refusal = |ask: &&Ask<'_>| ask.outcome.is_some_and(Outcome::is_refusal);
    let first = asks.iter().find(is_refusal)?;
    let outcome = first.outcome?;
    let is_by_quota =
        |ask: &&Ask<'_>| matches!(ask.outcome, Some(Outcome::Denied | Outcome::Blocked));
    let by_quota = asks.iter().filter(is_by_quota).filter_map(Ask::decided);
    let by_quota = by_quota.map(|it| PolicyDecision { decision: spread(it.decision), ..it });
    Refused::by_quota(by_quota.collect())
        .or_else(|| Some(Refused::new(Plan::clone(&first.plan), Reason::without_decision(outcome))))
}

/// Returns a refusal with up to twice its wait, at random, if a table was full: so that not all keys of a
/// flood return when a slot is free.
pub(super) fn spread(refused: Decision) -> Decision {
    let Some(wait) = refused.retry_after().filter(|_| refused.source() == Source::FullTable) else {
        return refused;
    };
    let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let more = wait.saturating_mul(random.into()) / 255;
    Decision::refused(refused.usage(), Some(wait.saturating_add(more)))
        .with_source(Source::FullTable)
}
