//! Asks a layer's rules about one request.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use crate::{
    check::{CheckResult, PendingAnswer, RuleCheck, is_of_store},
    config::{Config, EventDetails},
    future::After,
    handle::Refused,
    key::Head,
    observe::{Decisions, Outcome},
    respond::{Refusal, respond},
    rule::Rule,
    settle::Charges,
};

/// A request that is being decided. What was charged stays if it is dropped, because a client can go
/// away at any time: were it refunded, no limit would count requests that are reset.
pub(crate) struct RequestCheck {
    config: Arc<Config>,
    /// The index of the rule that is checked.
    rule: usize,
    /// In a box, because a limiter in memory answers at once.
    pending: Option<Box<(RuleCheck, PendingAnswer)>>,
    decisions: Decisions,
    charges: Charges,
}

impl RequestCheck {
    fn new(config: &Arc<Config>) -> Self {
        Self {
            config: Arc::clone(config),
            rule: 0,
            pending: None,
            decisions: Decisions::default(),
            charges: Charges::default(),
        }
    }

    /// Returns whether the request waits for permits, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.1.is_wait())
    }

    /// Lets the charges stay, once the verdict is to forward the request.
    pub(crate) fn admit(self) -> Option<Box<After>> {
        After::new(&self.config, self.decisions, self.charges)
    }

    /// Refunds what was charged, because the request is refused or fails.
    pub(crate) fn refund(&mut self) {
        mem::take(&mut self.charges).refund_above(0);
    }

    /// Asks the rules one after another.
    pub(crate) fn poll(
        &mut self,
        head: Head<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Refused>> {
        self.run(head, |answer| answer.poll(cx))
    }

    fn run(
        &mut self,
        head: Head<'_>,
        poll: impl FnMut(&mut PendingAnswer) -> Poll<CheckResult>,
    ) -> Poll<Result<(), Refused>> {
        let decided = self.advance(head, poll);
        if matches!(decided, Poll::Ready(Err(_))) {
            self.refund();
        }
        decided
    }

    fn advance(
        &mut self,
        head: Head<'_>,
        mut poll: impl FnMut(&mut PendingAnswer) -> Poll<CheckResult>,
    ) -> Poll<Result<(), Refused>> {
        let config = Arc::clone(&self.config);
        while let Some(rule) = config.rules.get(self.rule) {
            let (rule_check, mut answer) = match self.pending.take() {
                Some(pending) => *pending,
                None => match self.ask(&config, rule, head)? {
                    Some(asked) => asked,
                    None => {
                        self.rule += 1;
                        continue;
                    }
                },
            };
            match poll(&mut answer) {
                Poll::Pending => {
                    self.pending = Some(Box::new((rule_check, answer)));
                    return Poll::Pending;
                }
                Poll::Ready(result) => {
                    self.proceed(&config, rule, rule_check, result, head)?;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Asks a rule, unless it does not count the request.
    fn ask(
        &self,
        config: &Config,
        rule: &Rule,
        head: Head<'_>,
    ) -> Result<Option<(RuleCheck, PendingAnswer)>, Refused> {
        let not_asked = |outcome| {
            let plan = rule.plan.get();
            config.report(rule, &plan, outcome, EventDetails::default(), head);
            plan
        };
        match rule.key(head) {
            Ok(Some(key)) => {
                let (cost, needs_receipt) = (rule.cost(head), config.needs_receipts(self.rule));
                Ok(Some(RuleCheck::ask(config, rule, head, &key, cost, needs_receipt)))
            }
            Ok(None) => {
                not_asked(Outcome::Bypassed);
                Ok(None)
            }
            Err(missing) => {
                let plan = not_asked(Outcome::Rejected);
                let refusal = Refusal::rejected(head, &plan, &missing);
                Err(Refused::new(respond(config, rule, &refusal), None))
            }
        }
    }

    /// Proceeds to the next rule, or to a wait for permits.
    fn proceed(
        &mut self,
        config: &Config,
        rule: &Rule,
        mut rule_check: RuleCheck,
        result: CheckResult,
        head: Head<'_>,
    ) -> Result<(), Refused> {
        if let Some(wait) = rule_check.wait(rule, &result, || rule.key(head).ok().flatten()) {
            self.pending = Some(Box::new((rule_check, wait)));
            return Ok(());
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
        let later = config.rules.get(self.rule..).unwrap_or_default();
        if let Some(decided) = rule_check.conclude(config, rule, later, decision, head)? {
            self.decisions.push(decided);
        }
        Ok(())
    }
}

/// The result of asking a layer's rules, as far as they answer at once.
pub(crate) enum Start {
    /// It is forwarded.
    Admitted(Option<Box<After>>),
    /// It is answered in place of the inner service.
    Refused(Refused),
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

    /// Asks the only rule. Spares the common case, an admission by a limiter that answers at once, the
    /// copies of plan and decision that the general way needs.
    fn ask_only(config: &Arc<Config>, rule: &Rule, head: Head<'_>) -> Start {
        // Not moved out of the result: what was just written is slow to copy.
        let key = rule.key.key(head);
        let Ok(key) = &key else {
            return Self::ask_all(config, head);
        };
        let cost = rule.cost(head);
        let is_shadow = !rule.enforces(key);
        rule.with_plan(head, |plan| {
            let started = config.is_observed().then(Instant::now);
            let mut answer = plan.limiter().check_n(key, cost);
            if let Some(Ok(decision)) = answer.as_ready()
                && decision.is_admitted()
                && is_of_store(decision)
            {
                rule.store_decided(plan);
                if config.is_observed() {
                    let elapsed = started.map(|started| started.elapsed());
                    let details = EventDetails::decision(decision, elapsed);
                    config.report(rule, plan, Outcome::Allowed, details, head);
                }
                let after = After::plain(config, rule, plan, decision, cost, is_shadow);
                return Start::Admitted(after);
            }
            let rule_check = RuleCheck::of(plan.clone(), cost, is_shadow, started);
            let Some(result) = answer.take_ready() else {
                let pending = Some(Box::new((rule_check, PendingAnswer::Check(answer))));
                return Start::Pending(Self { pending, ..Self::new(config) });
            };
            match rule_check.conclude(config, rule, &[], result, head) {
                Ok(decided) => {
                    let decisions = decided.map(Decisions::from).unwrap_or_default();
                    Start::Admitted(After::new(config, decisions, Charges::default()))
                }
                Err(refused) => Start::Refused(refused),
            }
        })
    }

    fn ask_all(config: &Arc<Config>, head: Head<'_>) -> Start {
        let mut check = Self::new(config);
        match check.run(head, |answer| answer.take_ready().map_or(Poll::Pending, Poll::Ready)) {
            Poll::Ready(Ok(())) => Start::Admitted(check.admit()),
            Poll::Ready(Err(refused)) => Start::Refused(refused),
            Poll::Pending => Start::Pending(check),
        }
    }
}
