//! Asks a layer's rules about one request.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::Response;
use limiter_core::{Decision, Source};

use crate::{
    Decisions, Head, Outcome, PolicyDecision,
    charge::{Charges, Provisional},
    check::{CheckResult, RuleCheck, RuleOutcome, Stage},
    config::{Config, EventDetails},
    respond::{Refusal, insert, respond},
    rule::Rule,
};

/// A request that is being decided. Dropping it refunds what was charged.
pub(crate) struct RequestCheck {
    config: Arc<Config>,
    /// The index of the rule that is checked.
    rule: usize,
    /// In a box, because a limiter in memory answers at once.
    pending: Option<Box<(RuleCheck, Stage)>>,
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

impl RequestCheck {
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
        mut poll: impl FnMut(&mut Stage) -> Poll<CheckResult>,
    ) -> Poll<Verdict> {
        let config = Arc::clone(&self.config);
        while let Some(rule) = config.rules.get(self.rule) {
            let (rule_check, mut stage) = match self.pending.take() {
                Some(pending) => *pending,
                None => match self.ask(&config, rule, head) {
                    CheckStart::Started(rule_check, stage) => (rule_check, stage),
                    CheckStart::Rejected(response) => {
                        return Poll::Ready(Verdict::Answer(response));
                    }
                    CheckStart::Uncounted => {
                        self.rule += 1;
                        continue;
                    }
                },
            };
            match poll(&mut stage) {
                Poll::Pending => {
                    self.pending = Some(Box::new((rule_check, stage)));
                    return Poll::Pending;
                }
                Poll::Ready(result) => {
                    if let Some(response) = self.proceed(&config, rule, rule_check, result, head) {
                        return Poll::Ready(Verdict::Answer(response));
                    }
                }
            }
        }
        Poll::Ready(Verdict::Forward)
    }

    fn ask(&self, config: &Config, rule: &Rule, head: Head<'_>) -> CheckStart {
        match rule.key(head) {
            Ok(Some(key)) => {
                let (cost, needs_receipt) = (rule.cost(head), config.needs_receipts(self.rule));
                let (rule_check, stage) =
                    RuleCheck::ask(config, rule, head, &key, cost, needs_receipt);
                CheckStart::Started(rule_check, stage)
            }
            Ok(None) => {
                config.report(
                    rule,
                    &rule.plan.get(),
                    Outcome::Bypassed,
                    EventDetails::default(),
                    head,
                );
                CheckStart::Uncounted
            }
            Err(missing) => {
                let plan = rule.plan.get();
                config.report(rule, &plan, Outcome::Rejected, EventDetails::default(), head);
                CheckStart::Rejected(respond(
                    config,
                    rule,
                    &Refusal::rejected(head, &plan, &missing),
                ))
            }
        }
    }

    /// Proceeds to the next rule, or to a wait for permits. Returns the response to a request that is
    /// not admitted.
    fn proceed(
        &mut self,
        config: &Config,
        rule: &Rule,
        mut rule_check: RuleCheck,
        result: CheckResult,
        head: Head<'_>,
    ) -> Option<Response<Bytes>> {
        if let Some(wait) = rule_check.wait(rule, &result, || rule.key(head).ok().flatten()) {
            self.pending = Some(Box::new((rule_check, wait)));
            return None;
        }
        let decision = match result {
            Ok((decision, receipt)) => {
                if let Some(receipt) = receipt {
                    self.charges.push(rule_check.plan.clone(), receipt, &config.unsent);
                }
                Ok(decision)
            }
            Err(error) => Err(error),
        };
        self.rule += 1;
        match rule_check.conclude(config, rule, decision, head) {
            RuleOutcome::Admitted(None) => None,
            RuleOutcome::Admitted(Some(decided)) => {
                self.decisions.push(decided);
                None
            }
            RuleOutcome::Denied { mut response, decided } => {
                // The earlier ones do not stand: their charges are refunded.
                let decisions = decided.map(Decisions::from).unwrap_or_default();
                insert(config, decisions, response.extensions_mut());
                Some(response)
            }
        }
    }
}

/// The result of starting the check of a rule.
enum CheckStart {
    Started(RuleCheck, Stage),
    /// The rule does not count the request.
    Uncounted,
    /// The request has no key, and this is the response to it.
    Rejected(Response<Bytes>),
}

/// The result of checking a request of a layer with one rule.
pub(crate) enum FastPath {
    /// It is admitted. The decision is left out if no extension or header field reports it.
    Admitted(Decisions),
    /// Anything else.
    Other(RequestCheck, Poll<Verdict>),
}

impl FastPath {
    /// Asks `rule`. A limiter that admits the request at once is the common case, and takes half the
    /// time here (`cargo xtask bench layer`).
    pub(crate) fn ask(config: &Arc<Config>, rule: &Rule, head: Head<'_>) -> Self {
        let Ok(key) = rule.key.key(head) else {
            return Self::check_all(config, head);
        };
        let cost = rule.cost(head);
        let is_shadow = !rule.enforces(&key);
        rule.with_plan(head, |plan| {
            let started = config.is_observed().then(Instant::now);
            let mut answer = plan.limiter().check_n(&key, cost);
            let result = match answer.take_ready() {
                Some(Ok(decision)) if is_plain(&decision) => {
                    rule.store_decided(plan);
                    if config.is_observed() {
                        let elapsed = started.map(|started| started.elapsed());
                        let details = EventDetails::decision(&decision, elapsed);
                        config.report(rule, plan, Outcome::Allowed, details, head);
                    }
                    let mut decisions = Decisions::default();
                    if config.describes() {
                        let (plan, disclosure) = (plan.clone(), rule.disclosure);
                        let waited = None;
                        decisions.push(PolicyDecision {
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
                result => result,
            };
            let mut check = RequestCheck::new(config);
            let rule_check = RuleCheck::of(plan.clone(), cost, is_shadow, started);
            let verdict = match result {
                Some(result) => {
                    let result = result.map(|decision| (decision, None));
                    let response = check.proceed(config, rule, rule_check, result, head);
                    Poll::Ready(response.map_or(Verdict::Forward, Verdict::Answer))
                }
                None => {
                    check.pending = Some(Box::new((rule_check, Stage::Check(answer))));
                    Poll::Pending
                }
            };
            Self::Other(check, verdict)
        })
    }

    /// Asks all rules.
    pub(crate) fn check_all(config: &Arc<Config>, head: Head<'_>) -> Self {
        let mut check = RequestCheck::new(config);
        let verdict = check.start(head);
        Self::Other(check, verdict)
    }
}

/// Returns whether a decision is an admission by the store.
fn is_plain(decision: &Decision) -> bool {
    decision.is_admitted() && decision.source() == Source::Store
}
