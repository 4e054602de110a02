//! What follows from the rules' answers.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use limiter_core::{Decision, Source};

use crate::{
    decide::{Ask, Question, refund},
    decisions::{PolicyDecision, Reported, is_public},
    key::Head,
    observe::{Outcome, log},
    plan::Plan,
    report::{Details, Observer},
    respond::{Reason, Refused},
    rule::{Blocking, OnError},
    settle::{Charged, send_strike},
};

impl<'k> Question<'k> {
    /// Returns the rules' answers to an admitted request, and reports them. If the request is not admitted, refunds what
    /// was charged.
    pub(crate) fn conclude(
        mut self,
        observer: &Observer,
        head: Head<'_>,
    ) -> Result<Vec<Ask<'k>>, Refused> {
        let refused = self.conclude_each();
        self.report(refused.is_some(), observer, head);
        match refused {
            None => Ok(self.asks),
            Some(refused) => {
                refund(&mut self.asks);
                Err(refused)
            }
        }
    }

    /// Refunds what was charged, because a limit on requests in flight refuses the request, and reports stores that have
    /// failed.
    pub(crate) fn refuse(mut self, observer: &Observer, head: Head<'_>) {
        self.conclude_each();
        self.report(true, observer, head);
        refund(&mut self.asks);
    }

    /// Stores what became of the request under each rule, and returns the refusal if one refuses.
    fn conclude_each(&mut self) -> Option<Refused> {
        for ask in &mut self.asks {
            ask.outcome = ask.conclude();
        }
        refused(&self.asks)
    }

    /// Reports what became of the request under each rule. If it is refused, a rule that would have admitted it reports
    /// nothing, because it has charged nothing.
    fn report(&self, is_refused: bool, observer: &Observer, head: Head<'_>) {
        for ask in &self.asks {
            let is_reported = |it: &Outcome| !is_refused || it.is_refusal() || ask.has_failed();
            if let Some(outcome) = ask.outcome.filter(is_reported) {
                ask.report(outcome, self.elapsed, observer, head);
                ask.strike(outcome);
            }
        }
    }
}

impl Ask<'_> {
    /// Returns what became of the request under this rule, `None` if the rule was not asked.
    fn conclude(&self) -> Option<Outcome> {
        let decision = match self.answer.as_ref()? {
            Ok(decision) => decision,
            Err(error) => {
                return Some(match (self.rule.failed(error), self.is_shadow) {
                    (OnError::Forward, _) | (_, true) => Outcome::ErrorAllowed,
                    (OnError::Deny, false) => Outcome::ErrorDenied,
                    (OnError::Reject, false) => Outcome::Rejected,
                });
            }
        };
        if is_of_store(decision) {
            self.rule.store_decided();
        }
        Some(match decision.is_admitted() {
            true if self.waited.is_some() => Outcome::Delayed,
            true => Outcome::Allowed,
            false if self.is_shadow => Outcome::ShadowDenied,
            false if self.is_blocked => Outcome::Blocked,
            false => Outcome::Denied,
        })
    }

    /// Returns whether the store failed.
    const fn has_failed(&self) -> bool {
        matches!(self.answer, Some(Err(_)))
    }

    /// Counts a refusal as a strike, if the rule blocks keys that are refused. A refusal because the table is full is not
    /// the key's fault.
    fn strike(&self, outcome: Outcome) {
        let Some(Blocking { blocks, strikes: None }) = &self.rule.settings.block else { return };
        let is_refused = matches!(outcome, Outcome::Denied | Outcome::ShadowDenied);
        if let Some(Ok(decision)) = &self.answer
            && is_refused
            && !self.is_blocked
            && decision.source() != Source::FullTable
        {
            send_strike(blocks.strike(&self.key), &self.rule);
        }
    }

    fn report(
        &self,
        outcome: Outcome,
        elapsed: Option<Duration>,
        observer: &Observer,
        head: Head<'_>,
    ) {
        let (decision, error) = match &self.answer {
            Some(Ok(decision)) => (Some(decision), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        if let (Outcome::Denied | Outcome::Blocked, Some(decision)) = (outcome, decision) {
            log::refused(&self.rule.live().name, decision);
        }
        let details = Details { key: Some(&self.key), decision, error, elapsed };
        observer.report(&self.rule, &self.plan, outcome, details, head);
    }

    /// Returns what header fields report to clients, if they do.
    pub(crate) fn reported(&self) -> Option<Reported<'_>> {
        let Some(Ok(decision)) = &self.answer else { return None };
        let disclosure = self.rule.settings.disclosure;
        let is_public = is_public(disclosure, self.is_shadow, decision);
        let is_asked_only = self.rule.settings.charge_after.is_some() && decision.is_admitted();
        let charged = if is_asked_only { 0 } else { self.cost.get() };
        is_public.then_some(Reported { plan: &self.plan, decision, cost: self.cost, charged })
    }

    /// Returns the decision, `None` if the store failed.
    pub(crate) fn decided(&self) -> Option<PolicyDecision> {
        let decision = *self.answer.as_ref()?.as_ref().ok()?;
        let is_asked_only = self.rule.settings.charge_after.is_some();
        Some(PolicyDecision {
            rule: self.rule.live().name.clone(),
            plan: Plan::clone(&self.plan),
            cost: self.cost,
            charged: if is_asked_only { 0 } else { self.cost.get() },
            decision,
            is_shadow: self.is_shadow,
            is_blocked: self.is_blocked,
            waited: self.waited,
            disclosure: self.rule.settings.disclosure,
        })
    }

    /// Returns what may be settled: by the rule, or by a handler if it `keeps_charges`.
    pub(crate) fn charged(self, keeps_charges: bool) -> Option<Charged> {
        let Self { rule, plan, key, receipt, answer, .. } = self;
        let settles = rule.settings.settles();
        let has_subject = receipt.is_some() || settles && matches!(answer, Some(Ok(_)));
        (has_subject && (settles || keeps_charges)).then(|| Charged {
            rule: rule.into_owned(),
            plan: plan.into_owned(),
            key: key.into_owned(),
            receipt,
            kept: None,
        })
    }
}

/// Returns whether the store made a decision, now or when it granted a lease.
pub(crate) const fn is_of_store(decision: &Decision) -> bool {
    matches!(decision.source(), Source::State | Source::Lease)
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
fn spread(refused: Decision) -> Decision {
    let Some(wait) = refused.retry_after().filter(|_| refused.source() == Source::FullTable) else {
        return refused;
    };
    let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let more = wait.saturating_mul(random.into()) / 255;
    Decision::refused(refused.usage(), Some(wait.saturating_add(more)))
        .with_source(Source::FullTable)
}
