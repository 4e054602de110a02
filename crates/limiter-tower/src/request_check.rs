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
    Decisions, Disclosure, Head, Outcome, PolicyDecision,
    charge::Provisional,
    check::{CheckResult, RuleCheck, RuleOutcome, Stage},
    config::{Config, EventDetails},
    future::After,
    respond::{Refusal, Reported, insert, respond},
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

    /// Lets the charges stay, once the verdict is to forward the request.
    pub(crate) fn admit(self) -> Option<Box<After>> {
        After::new(&self.config, self.decisions, self.charges.commit())
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
                if let Some(decided) = decided.filter(|_| config.has_decisions) {
                    insert(decided.into(), response.extensions_mut());
                }
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

/// The result of asking a layer's rules, as far as they answer at once.
pub(crate) enum Start {
    /// It is forwarded.
    Admitted(Option<Box<After>>),
    /// It is answered in place of the inner service.
    Answered(Response<Bytes>),
    /// Not yet decided.
    Pending(RequestCheck),
}

impl RequestCheck {
    /// Asks the rules.
    pub(crate) fn start(config: &Arc<Config>, head: Head<'_>) -> Start {
        if config.passes(head) {
            return Start::Admitted(None);
        }
        match config.only_rule() {
            Some(rule) => Self::ask_only(config, rule, head),
            None => Self::ask_all(config, head),
        }
    }

    /// Asks the only rule. A limiter that admits the request at once is the common case, and takes half
    /// the time here (`cargo xtask bench layer`).
    fn ask_only(config: &Arc<Config>, rule: &Rule, head: Head<'_>) -> Start {
        // Not moved out of the result: a copy of what was just written is slow.
        let key = rule.key.key(head);
        let Ok(key) = &key else {
            return Self::ask_all(config, head);
        };
        let cost = rule.cost(head);
        let is_shadow = !rule.enforces(key);
        rule.with_plan(head, |plan| {
            let started = config.is_observed().then(Instant::now);
            let mut answer = plan.limiter().check_n(key, cost);
            match answer.as_ready() {
                Some(Ok(decision)) if is_plain(decision) => {
                    rule.store_decided(plan);
                    if config.is_observed() {
                        let elapsed = started.map(|started| started.elapsed());
                        let details = EventDetails::decision(decision, elapsed);
                        config.report(rule, plan, Outcome::Allowed, details, head);
                    }
                    if !config.describes() {
                        return Start::Admitted(None);
                    }
                    let disclosure = rule.disclosure;
                    let is_public = disclosure == Disclosure::Full && !is_shadow;
                    let reported = is_public.then_some(Reported { plan, decision, cost });
                    let fields = config.headers.fields(reported.into_iter());
                    let decisions = config.has_decisions.then(|| {
                        let (plan, decision, waited) = (plan.clone(), *decision, None);
                        PolicyDecision { plan, cost, decision, is_shadow, waited, disclosure }
                            .into()
                    });
                    let after = After { fields, decisions, ..After::default() };
                    return Start::Admitted(Some(Box::new(after)));
                }
                _ => {}
            }
            let mut check = Self::new(config);
            let rule_check = RuleCheck::of(plan.clone(), cost, is_shadow, started);
            match answer.take_ready() {
                Some(result) => {
                    let result = result.map(|decision| (decision, None));
                    match check.proceed(config, rule, rule_check, result, head) {
                        None => check.started(Poll::Ready(Verdict::Forward)),
                        Some(response) => Start::Answered(response),
                    }
                }
                None => {
                    check.pending = Some(Box::new((rule_check, Stage::Check(answer))));
                    Start::Pending(check)
                }
            }
        })
    }

    fn ask_all(config: &Arc<Config>, head: Head<'_>) -> Start {
        let mut check = Self::new(config);
        let verdict =
            check.run(head, |stage| stage.take_ready().map_or(Poll::Pending, Poll::Ready));
        check.started(verdict)
    }

    fn started(self, verdict: Poll<Verdict>) -> Start {
        match verdict {
            Poll::Ready(Verdict::Forward) => Start::Admitted(self.admit()),
            Poll::Ready(Verdict::Answer(response)) => Start::Answered(response),
            Poll::Pending => Start::Pending(self),
        }
    }
}

/// Returns whether a decision is an admission by the store.
fn is_plain(decision: &Decision) -> bool {
    decision.is_admitted() && decision.source() == Source::Store
}
