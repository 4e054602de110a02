//! Asks a layer's rules about one request.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use limiter_core::{Decision, Source};

use crate::{
    Decided, Decisions, Head, Outcome,
    asking::{Asked, Concluded, Question, Stage},
    charge::{Charges, Provisional},
    config::{Config, Found},
    respond::{Refusal, insert, respond},
    rule::Rule,
};

/// A request that is being decided. Dropping it refunds what was charged.
pub(crate) struct Inquiry {
    config: Arc<Config>,
    /// The index of the rule that is asked.
    rule: usize,
    /// In a box, because a limiter in memory answers at once.
    pending: Option<Box<(Question, Stage)>>,
    decisions: Decisions,
    charges: Provisional,
}

/// What becomes of a request.
pub(crate) enum Verdict {
    /// It is forwarded.
    Forward,
    /// It is answered in place of the inner service.
    Answer(Response<Bytes>),
}

impl Inquiry {
    fn new(config: &Arc<Config>) -> Self {
        Self {
            config: Arc::clone(config),
            rule: 0,
            pending: None,
            decisions: Decisions::default(),
            charges: Provisional::default(),
        }
    }

    /// Returns whether the request waits for permits, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.1.is_wait())
    }

    pub(crate) const fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the decisions and the charges, once the verdict is to forward the request.
    pub(crate) fn admit(self) -> (Decisions, Charges) {
        (self.decisions, self.charges.commit())
    }

    /// Asks the rules one after another, as far as they answer at once.
    fn start(&mut self, head: Head<'_>) -> Poll<Verdict> {
        self.run(head, |stage| stage.take_ready().map_or(Poll::Pending, Poll::Ready))
    }

    /// Asks the rules one after another.
    pub(crate) fn poll(&mut self, head: Head<'_>, cx: &mut Context<'_>) -> Poll<Verdict> {
        self.run(head, |stage| stage.poll(cx))
    }

    fn run(
        &mut self,
        head: Head<'_>,
        mut poll: impl FnMut(&mut Stage) -> Poll<Asked>,
    ) -> Poll<Verdict> {
        let config = Arc::clone(&self.config);
        while let Some(rule) = config.rules.get(self.rule) {
            let (question, mut stage) = match self.pending.take() {
                Some(pending) => *pending,
                None => match self.ask(&config, rule, head) {
                    Asking::Asked(question, stage) => (question, stage),
                    Asking::Rejected(response) => return Poll::Ready(Verdict::Answer(response)),
                    Asking::Uncounted => {
                        self.rule += 1;
                        continue;
                    }
                },
            };
            match poll(&mut stage) {
                Poll::Pending => {
                    self.pending = Some(Box::new((question, stage)));
                    return Poll::Pending;
                }
                Poll::Ready(asked) => {
                    if let Some(response) = self.proceed(&config, rule, question, asked, head) {
                        return Poll::Ready(Verdict::Answer(response));
                    }
                }
            }
        }
        Poll::Ready(Verdict::Forward)
    }

    fn ask(&self, config: &Config, rule: &Rule, head: Head<'_>) -> Asking {
        match rule.key(head) {
            Ok(Some(key)) => {
                let (cost, needs_receipt) = (rule.cost(head), config.needs_receipts(self.rule));
                let (question, stage) =
                    Question::ask(config, rule, head, &key, cost, needs_receipt);
                Asking::Asked(question, stage)
            }
            Ok(None) => {
                config.report(&rule.plan.get(), Outcome::Bypassed, Found::default(), head);
                Asking::Uncounted
            }
            Err(missing) => {
                let plan = rule.plan.get();
                config.report(&plan, Outcome::Rejected, Found::default(), head);
                Asking::Rejected(respond(config, rule, &Refusal::rejected(head, &plan, &missing)))
            }
        }
    }

    /// Proceeds to the next rule, or to a wait for permits. Returns the response to a request that is
    /// not admitted.
    fn proceed(
        &mut self,
        config: &Config,
        rule: &Rule,
        mut question: Question,
        asked: Asked,
        head: Head<'_>,
    ) -> Option<Response<Bytes>> {
        if let Some(wait) = question.wait(rule, &asked, || rule.key(head).ok().flatten()) {
            self.pending = Some(Box::new((question, wait)));
            return None;
        }
        let decision = match asked {
            Ok((decision, receipt)) => {
                if let Some(receipt) = receipt {
                    self.charges.push(question.plan.clone(), receipt, &config.unsent);
                }
                Ok(decision)
            }
            Err(error) => Err(error),
        };
        self.rule += 1;
        match question.conclude(config, rule, decision, head) {
            Concluded::Admitted(None) => None,
            Concluded::Admitted(Some(decided)) => {
                self.decisions.push(decided);
                None
            }
            Concluded::Denied { mut response, decided } => {
                let mut decisions = mem::take(&mut self.decisions);
                if let Some(decided) = decided {
                    decisions.push(decided);
                }
                insert(config, decisions, response.extensions_mut());
                Some(response)
            }
        }
    }
}

/// What came of asking a rule.
enum Asking {
    Asked(Question, Stage),
    /// The rule does not count the request.
    Uncounted,
    /// The request has no key, and this is the response to it.
    Rejected(Response<Bytes>),
}

/// What became of a request whose layer has one rule.
pub(crate) enum AtOnce {
    /// It is admitted. There is no decision if nothing reads it.
    Admitted(Decisions),
    /// Anything else.
    Other(Inquiry, Poll<Verdict>),
}

impl AtOnce {
    /// Asks `rule`. A limiter that admits the request at once is the common case, and takes half the
    /// time here (`cargo xtask bench layer`).
    pub(crate) fn ask(config: &Arc<Config>, rule: &Rule, head: Head<'_>) -> Self {
        let Ok(key) = rule.key.key(head) else {
            return Self::ask_all(config, head);
        };
        let cost = rule.cost(head);
        let is_shadow = !rule.enforces(&key);
        rule.with_plan(head, |plan| {
            let mut answer = plan.limiter().check_n(&key, cost);
            let asked = match answer.take_ready() {
                Some(Ok(decision)) if is_plain(&decision) => {
                    rule.store_decided(plan);
                    let mut decisions = Decisions::default();
                    if config.describes() {
                        let (plan, disclosure) = (plan.clone(), rule.disclosure);
                        let waited = None;
                        decisions.push(Decided {
                            plan,
                            cost,
                            decision,
                            is_shadow,
                            waited,
                            disclosure,
                        });
                    }
                    return Self::Admitted(decisions);
                }
                asked => asked,
            };
            let mut inquiry = Inquiry::new(config);
            let question = Question::of(plan.clone(), cost, is_shadow);
            let verdict = match asked {
                Some(asked) => {
                    let asked = asked.map(|decision| (decision, None));
                    let response = inquiry.proceed(config, rule, question, asked, head);
                    Poll::Ready(response.map_or(Verdict::Forward, Verdict::Answer))
                }
                None => {
                    inquiry.pending = Some(Box::new((question, Stage::Check(answer))));
                    Poll::Pending
                }
            };
            Self::Other(inquiry, verdict)
        })
    }

    /// Asks all rules.
    pub(crate) fn ask_all(config: &Arc<Config>, head: Head<'_>) -> Self {
        let mut inquiry = Inquiry::new(config);
        let verdict = inquiry.start(head);
        Self::Other(inquiry, verdict)
    }
}

/// Returns whether a decision is an admission by the store.
fn is_plain(decision: &Decision) -> bool {
    decision.is_admitted() && decision.source() == Source::Store
}
