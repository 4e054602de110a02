//! The decision on one request, and what becomes of it.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::Response;

use crate::{
    after::After,
    conclude::is_of_store,
    config::Config,
    decide::{Ask, Question},
    entering::{Entered, Entering, PendingEntering},
    key::{Head, MissingKey},
    observe::Outcome,
    report::Details,
    respond::{Reason, Refused, insert},
    rule::Rule,
};

/// What becomes of a request.
pub(crate) enum Verdict {
    Forward(Option<Box<After>>),
    /// It is answered in place of the inner service.
    Answer(Response<Bytes>),
}

impl Config {
    /// Decides on a request. Returns what is awaited if that is not possible at once.
    pub(crate) fn decide(
        self: &Arc<Self>,
        head: Head<'_>,
    ) -> Result<Verdict, Box<PendingEntering>> {
        if self.passes(head) {
            return Ok(self.forward(Entered::default(), head));
        }
        match self.only_rule() {
            Some(rule) => self.decide_by(rule, head),
            None => self.decide_by_all(head),
        }
    }

    /// Decides by the only rule. Spares the common case, an admission by a limiter that answers at once, the copies that
    /// the general path makes.
    fn decide_by(
        self: &Arc<Self>,
        rule: &Rule,
        head: Head<'_>,
    ) -> Result<Verdict, Box<PendingEntering>> {
        // Not moved out of the result: what was just written is slow to copy.
        let key = rule.counted_key(head);
        let key = match &key {
            Ok(Some(key)) => key,
            Ok(None) => {
                self.observer.not_asked(rule, Outcome::Bypassed, head);
                return Ok(self.forward(Entered::default(), head));
            }
            Err(missing) => return Ok(self.reject(rule, missing.clone(), head)),
        };
        let (cost, plan) = (rule.cost_of(head), rule.plan_of(head));
        let asked_at = self.observer.is_active().then(Instant::now);
        let mut answer = plan.limiter().check_n(key, cost);
        if !self.has_decisions
            && let Some(Ok(decision)) = answer.as_ready()
            && decision.is_admitted()
            && is_of_store(decision)
        {
            rule.store_decided();
            if let Some(asked_at) = asked_at {
                let (key, decision) = (Some(key), Some(decision));
                let elapsed = Some(asked_at.elapsed());
                let details = Details { key, decision, elapsed, error: None };
                self.observer.report(rule, &plan, Outcome::Allowed, details, head);
            }
            return Ok(Verdict::Forward(After::plain(self, rule, &plan, decision, cost, key)));
        }
        let mut question = Question::new(vec![Ask::new(rule, plan, key.into(), cost)], asked_at);
        match answer.take_ready() {
            Some(answer) => {
                question.answered(answer);
                Ok(self.conclude(Entering::by_rates(question), head))
            }
            None => Err(Box::new(PendingEntering::check(question.into_owned(), answer))),
        }
    }

    fn decide_by_all(self: &Arc<Self>, head: Head<'_>) -> Result<Verdict, Box<PendingEntering>> {
        let asked_at = self.observer.is_active().then(Instant::now);
        let skipped = |rule: &Rule| self.observer.not_asked(rule, Outcome::Bypassed, head);
        let rates = match Question::of(&self.rules, head, self.may_refund(), asked_at, skipped) {
            Ok(rates) => rates,
            Err((rule, missing)) => return Ok(self.reject(rule, missing, head)),
        };
        match Entering::of(rates, &self.in_flight, head) {
            Ok(entering) => Ok(self.conclude(entering.ask()?, head)),
            Err((rule, missing)) => {
                rule.report_not_asked(Outcome::Rejected);
                let refused = Refused::new(None, Reason::Rejected(missing));
                Ok(Verdict::Answer(self.answers.refuse(head, &refused)))
            }
        }
    }

    /// Returns what follows from the answers of all rules.
    pub(crate) fn conclude(self: &Arc<Self>, entering: Entering<'_>, head: Head<'_>) -> Verdict {
        match entering.conclude(&self.observer, head) {
            Ok(entered) => self.forward(entered, head),
            Err(refused) => self.refuse(&refused, head),
        }
    }

    fn forward(self: &Arc<Self>, entered: Entered<'_>, head: Head<'_>) -> Verdict {
        Verdict::Forward(After::new(self, entered, head))
    }

    /// Rejects a request without a key.
    fn reject(&self, rule: &Rule, missing: MissingKey, head: Head<'_>) -> Verdict {
        self.observer.not_asked(rule, Outcome::Rejected, head);
        let plan = rule.live().plan.get().into_owned();
        let refused = Refused::new(plan, Reason::Rejected(missing));
        Verdict::Answer(self.answers.refuse(head, &refused))
    }

    fn refuse(&self, refused: &Refused, head: Head<'_>) -> Verdict {
        let mut response = self.answers.refuse(head, refused);
        if self.has_decisions
            && let Some(decisions) = refused.all_decisions()
        {
            insert(decisions.clone(), response.extensions_mut());
        }
        Verdict::Answer(response)
    }
}
