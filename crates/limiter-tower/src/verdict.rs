//! What becomes of a request: asks the rules, and answers.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::Response;

use crate::{
    after::After,
    conclude::is_of_store,
    config::Config,
    decide::{Ask, Pending, Question},
    entering::{Entered, Entering, PendingEntering},
    holding::Holding,
    key::{Head, MissingKey},
    observe::Outcome,
    report::Details,
    respond::{Reason, Refused, insert},
    rule::Rule,
};

/// What becomes of a request.
pub(crate) enum Verdict {
    Forward(Option<Box<After>>),
    /// It is forwarded, and the layer has limits on requests in flight.
    Hold(Box<Holding>),
    /// It is answered in place of the inner service.
    Answer(Response<Bytes>),
}

/// A decision that is awaited.
pub(crate) enum Undecided {
    Rates(Pending),
    Entering(Box<PendingEntering>),
}

impl Undecided {
    /// Returns whether the request waits for permits of a rate, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Rates(pending) => pending.is_waiting(),
            Self::Entering(pending) => pending.is_waiting(),
        }
    }

    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        config: &Arc<Config>,
        head: Head<'_>,
    ) -> Poll<Verdict> {
        match self {
            Self::Rates(pending) => {
                pending.poll(cx).map(|question| config.conclude(question, head))
            }
            Self::Entering(pending) => {
                pending.poll(cx).map(|entering| config.conclude_entering(entering, head))
            }
        }
    }
}

impl Config {
    /// Decides on a request. Returns what is awaited if that is not possible at once.
    pub(crate) fn decide(self: &Arc<Self>, head: Head<'_>) -> Result<Verdict, Undecided> {
        if !self.in_flight.is_empty() {
            return self.decide_entering(head).map_err(Undecided::Entering);
        }
        self.decide_rates(head).map_err(Undecided::Rates)
    }

    fn decide_rates(&self, head: Head<'_>) -> Result<Verdict, Pending> {
        if self.passes(head) {
            return Ok(self.uncounted());
        }
        match self.only_rule() {
            Some(rule) => self.decide_by(rule, head),
            None => self.decide_by_all(head),
        }
    }

    /// Decides by the only rule. Spares the common case, an admission by a limiter that answers at once, the copies that
    /// the general path makes.
    fn decide_by(&self, rule: &Rule, head: Head<'_>) -> Result<Verdict, Pending> {
        // Not moved out of the result: what was just written is slow to copy.
        let key = rule.counted_key(head);
        let key = match &key {
            Ok(Some(key)) => key,
            Ok(None) => {
                self.observer.not_asked(rule, Outcome::Bypassed, head);
                return Ok(self.uncounted());
            }
            Err(missing) => return Ok(self.reject(rule, missing.clone(), head)),
        };
        let cost = rule.cost_of(head);
        let asked_at = self.observer.is_active().then(Instant::now);
        rule.with_plan(head, |plan| {
            let mut answer = plan.limiter().check_n(key, cost);
            if let Some(Ok(decision)) = answer.as_ready()
                && decision.is_admitted()
                && is_of_store(decision)
            {
                rule.store_decided();
                if let Some(asked_at) = asked_at {
                    let (key, decision) = (Some(key), Some(decision));
                    let elapsed = Some(asked_at.elapsed());
                    let details = Details { key, decision, elapsed, error: None };
                    self.observer.report(rule, plan, Outcome::Allowed, details, head);
                }
                return Ok(Verdict::Forward(After::plain(self, rule, plan, decision, cost, key)));
            }
            let mut ask = Ask::new(rule, plan.clone(), key.into(), cost);
            match answer.take_ready() {
                Some(answer) => {
                    ask.answer = Some(answer);
                    let mut question = Question::new(vec![ask], asked_at);
                    question.set_elapsed();
                    Ok(self.conclude(question, head))
                }
                None => Err(Pending::check(ask.into_owned(), asked_at, answer)),
            }
        })
    }

    fn decide_by_all(&self, head: Head<'_>) -> Result<Verdict, Pending> {
        let asked_at = self.observer.is_active().then(Instant::now);
        let skipped = |rule: &Rule| self.observer.not_asked(rule, Outcome::Bypassed, head);
        match Question::of(&self.rules, head, asked_at, skipped) {
            Ok(question) => Ok(self.conclude(question.ask()?, head)),
            Err((rule, missing)) => Ok(self.reject(rule, missing, head)),
        }
    }

    /// Decides by rates and by limits on requests in flight.
    fn decide_entering(self: &Arc<Self>, head: Head<'_>) -> Result<Verdict, Box<PendingEntering>> {
        if self.passes(head) {
            let after = After::new(self, Vec::new(), Vec::new());
            return Ok(Verdict::Hold(Box::new(Holding::new(self, head, after, None))));
        }
        let asked_at = self.observer.is_active().then(Instant::now);
        let skipped = |rule: &Rule| self.observer.not_asked(rule, Outcome::Bypassed, head);
        let rates = match Question::of(&self.rules, head, asked_at, skipped) {
            Ok(rates) => rates,
            Err((rule, missing)) => return Ok(self.reject(rule, missing, head)),
        };
        match Entering::of(rates, &self.in_flight, head) {
            Ok(entering) => Ok(self.conclude_entering(entering.ask()?, head)),
            Err((rule, missing)) => {
                rule.report_not_asked(Outcome::Rejected);
                let refused = Refused::new(None, Reason::Rejected(missing));
                Ok(Verdict::Answer(self.answers.refuse(head, &refused)))
            }
        }
    }

    /// Returns what follows from the answers of rates and of limits on requests in flight.
    fn conclude_entering(self: &Arc<Self>, entering: Entering<'_>, head: Head<'_>) -> Verdict {
        match entering.conclude(&self.observer, head) {
            Ok(Entered { rates, permits, in_flight }) => {
                let after = After::new(self, rates, in_flight);
                Verdict::Hold(Box::new(Holding::new(self, head, after, permits)))
            }
            Err(refused) => self.refuse(&refused, head),
        }
    }

    /// Forwards a request that no rule counts.
    fn uncounted(&self) -> Verdict {
        Verdict::Forward(After::new(self, Vec::new(), Vec::new()))
    }

    /// Rejects a request without a key.
    fn reject(&self, rule: &Rule, missing: MissingKey, head: Head<'_>) -> Verdict {
        self.observer.not_asked(rule, Outcome::Rejected, head);
        let refused = Refused::new(rule.live().plan.get(), Reason::Rejected(missing));
        Verdict::Answer(self.answers.refuse(head, &refused))
    }

    /// Returns what follows from the answers.
    fn conclude(&self, question: Question<'_>, head: Head<'_>) -> Verdict {
        match question.conclude(&self.observer, head) {
            Ok(asks) => Verdict::Forward(After::new(self, asks, Vec::new())),
            Err(refused) => self.refuse(&refused, head),
        }
    }

    fn refuse(&self, refused: &Refused, head: Head<'_>) -> Verdict {
        let mut response = self.answers.refuse(head, refused);
        if self.has_decisions
            && let Reason::Quota(decisions) | Reason::InFlight(decisions) = refused.reason()
        {
            insert(decisions.clone(), response.extensions_mut());
        }
        Verdict::Answer(response)
    }
}
