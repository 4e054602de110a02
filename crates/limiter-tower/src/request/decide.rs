//! The decision on one request by all rules.
//!
//! The order is fixed, whatever the list of rules says:
//!
//! 1. Each rule's key, plan and cost are read. A request without a key is rejected before anything is charged.
//! 2. All enforced rules are one [decision](limiter_core::decide): all are charged, or none. The client's own keys are
//!    asked first, then keys that it chooses, then keys that it shares, and a rule that waits is last.
//! 3. If the rule that waits is the only one to refuse, the request joins its queue, and the others are asked after it.
//!    Those that were not asked before, because another store had refused, are first asked without a charge.
//! 4. Shadows are asked once the others have admitted the request.
//!
//! If a store fails, the failure acts for the rules of that store only, and the others are asked alone.

use std::{
    borrow::Cow,
    mem,
    time::{Duration, Instant},
};

use limiter_core::{
    Cost, Decision, Demand, Error, ErrorKind, JointDecision, Key, LimiterFuture, LimiterId,
    Receipt, Usage,
};

use super::common::asks;
use crate::{
    answer::{Reason, Refused},
    key::Head,
    observe::Outcome,
    plan::Plan,
    rule::{Mode, OnError, Rule},
    settle::send,
};

/// How many demands ask whether a key is blocked.
pub(super) const BLOCK_DEMANDS: usize = 2;

/// The most demands of one decision.
const MAX_DEMANDS: usize = 16;

/// Returns an error if these rules are too many for one decision.
pub(super) fn check_demands<'r>(rules: impl Iterator<Item = &'r Rule>) -> Result<(), Error> {
    let demands = |rule: &Rule| if rule.settings.block.is_some() { 1 + BLOCK_DEMANDS } else { 1 };
    match rules.map(demands).sum() {
        0..=MAX_DEMANDS => Ok(()),
        demands => {
            let fault = format!(
                "the rules for a request have {demands} demands, and at most {MAX_DEMANDS} are possible (a rule with a block \
                 has three); divide them among two layers"
            );
            Err(Error::new(ErrorKind::InvalidSetting, fault))
        }
    }
}

/// What one rule is asked about a request, and its answer.
pub(crate) struct Ask<'k> {
    pub(crate) rule: &'k Rule,
    pub(crate) plan: Cow<'k, Plan>,
    pub(crate) key: Key<'k>,
    pub(crate) cost: Cost,
    pub(crate) is_shadow: bool,
    /// `None` if the rule was not asked, because others had refused.
    pub(crate) answer: Option<Result<Decision, Error>>,
    pub(crate) receipt: Option<Receipt>,
    /// What became of the request under this rule, once that is concluded from the answer.
    pub(crate) outcome: Option<Outcome>,
    /// Whether the answer is a refusal because the key is blocked.
    pub(crate) is_blocked: bool,
    /// How long the request waited in the rule's queue, if it did.
    pub(crate) waited: Option<Duration>,
}

/// What one request asks of the rules.
///
/// What was charged stays if it is dropped, because a client can go away at any time: were it refunded, no limit would
/// count requests that are reset.
pub(crate) struct Question<'k> {
    pub(super) asks: Vec<Ask<'k>>,
    /// Whether a charge may be refunded, also if all rules admit the request.
    may_refund: bool,
    /// When the rules were asked, if that is reported.
    asked_at: Option<Instant>,
    /// How long they took to decide, without a delay.
    pub(super) elapsed: Option<Duration>,
}

impl<'k> Ask<'k> {
    pub(crate) fn new(rule: &'k Rule, plan: Cow<'k, Plan>, key: Key<'k>, cost: Cost) -> Self {
        Self {
            rule,
            plan,
            is_shadow: !rule.spec().enforces(&key),
            key,
            cost,
            answer: None,
            receipt: None,
            outcome: None,
            is_blocked: false,
            waited: None,
        }
    }

    /// Returns what the rule is asked about a request, `None` if it does not count it.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the rule has no key for the request, or a plan with the name of another rule.
    pub(crate) fn of(rule: &'k Rule, head: Head<'k>) -> Result<Option<Self>, Refused> {
        match rule.spec().counted_key(head) {
            Ok(Some(key)) => Self::by_key(rule, key, None, head),
            Ok(None) => Ok(None),
            Err(missing) => Err(rejected(rule, Reason::Rejected(missing), head)),
        }
    }

    /// Returns the same under this key and with this cost, if there is one, in place of the rule's own.
    pub(crate) fn by_key(
        rule: &'k Rule,
        key: Key<'k>,
        cost: Option<Cost>,
        head: Head<'k>,
    ) -> Result<Option<Self>, Refused> {
        match rule.plan_of(head) {
            Ok(plan) => {
                let cost = cost.unwrap_or_else(|| rule.cost_of(head));
                Ok(Some(Self::new(rule, plan, key, cost)))
            }
            Err(error) => match rule.spec().failed(&error, rule.mode() == Mode::SHADOW) {
                Outcome::Rejected => Err(rejected(rule, Reason::Misconfigured, head)),
                _ => Ok(None),
            },
        }
    }

    /// Returns the demand on the rule's limiter.
    fn demand(&self, may_refund: bool) -> Demand<'_> {
        let limiter = self.plan.limiter();
        match self.rule.settings.charge_after {
            Some(_) => self.question(),
            None if may_refund => Demand::new(limiter, &self.key, self.cost),
            None => Demand::new(limiter, &self.key, self.cost).without_receipt(),
        }
    }

    /// Returns a demand on the rule's limiter that charges nothing.
    pub(super) fn question(&self) -> Demand<'_> {
        Demand::only_ask(self.plan.limiter(), &self.key, self.cost)
    }

    /// Refuses the request for a time, because the key is blocked. It is reported as a refusal by the rule, with no
    /// permits left.
    pub(super) fn set_blocked(&mut self, wait: Duration) {
        let own = self.answer.take().and_then(Result::ok);
        let wait = match own {
            Some(own) if !own.is_admitted() => own.retry_after().map(|own| own.max(wait)),
            _ => Some(wait),
        };
        let burst = self.plan.policy().limits().first().map_or(0, |limit| limit.quota().burst());
        let usage = Usage::new(burst, 0, wait.unwrap_or_default());
        self.answer = Some(Ok(Decision::refused(usage, wait)));
        self.is_blocked = true;
    }

    /// Returns whether the request is not forwarded because of this rule's answer.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_shadow
            && self.answer.as_ref().is_some_and(|answer| match answer {
                Ok(decision) => !decision.is_admitted(),
                Err(error) => self.rule.spec().on_error(error) != OnError::Forward,
            })
    }

    /// Returns whether the limiter decides without a call to a store.
    fn is_in_memory(&self) -> bool {
        self.plan.limiter().preview(&self.key, self.cost).is_some()
    }
}

impl<'k> Question<'k> {
    /// Returns what the rules are asked about a request.
    ///
    /// # Errors
    ///
    /// [`Refused`] if a rule has no key for the request.
    pub(super) fn of(rules: &'k [Rule], head: Head<'k>, may_refund: bool) -> Result<Self, Refused> {
        let asks = asks(rules, head, Ask::of)?;
        let enforced = asks.iter().filter(|ask| !ask.is_shadow).map(|ask| ask.rule);
        if let (Err(error), Some(first)) = (check_demands(enforced), asks.first()) {
            first.rule.spec().failed(&error, false);
            return Err(rejected(first.rule, Reason::Misconfigured, head));
        }
        Ok(Self { may_refund, ..Self::new(asks) })
    }

    /// Returns a question whose charges may be refunded.
    pub(crate) fn new(asks: Vec<Ask<'k>>) -> Self {
        let is_observed = asks.iter().any(|ask| ask.rule.spec().is_observed());
        let asked_at = is_observed.then(Instant::now);
        Self { asks, may_refund: true, asked_at, elapsed: None }
    }

    /// Returns a question with its answers, which charged nothing.
    pub(super) const fn answered(asks: Vec<Ask<'k>>, elapsed: Option<Duration>) -> Self {
        Self { asks, may_refund: false, asked_at: None, elapsed }
    }

    /// Asks the rules, and returns their answers if they admit the request. Reports what each did.
    ///
    /// # Errors
    ///
    /// [`Refused`] if a rule refuses. What was charged is refunded.
    pub(crate) async fn decide(mut self, head: Head<'_>) -> Result<Vec<Ask<'k>>, Refused> {
        match &mut *self.asks {
            // A check costs less than a decision over a list of one.
            [ask] if ask.rule.settings.is_plain() && !self.may_refund => {
                ask.answer = Some(ask.plan.limiter().check_n(&ask.key, ask.cost).await);
                self.set_elapsed();
            }
            _ => {
                let joint = self.ask(|ask| !ask.is_shadow).await;
                self.set_elapsed();
                self.store(joint, |ask| !ask.is_shadow).await;
                self.queue().await;
                self.ask_each(|ask| ask.is_shadow).await;
            }
        }
        self.conclude(head).await
    }

    /// Asks for one decision over the rules that `has` selects.
    pub(super) fn ask(&self, has: impl Fn(&Ask<'_>) -> bool) -> LimiterFuture<JointDecision> {
        self.ask_by(has, |ask| ask.demand(self.may_refund))
    }

    /// Asks for one decision over the rules that `has` selects, by a demand on each.
    pub(super) fn ask_by<'a>(
        &'a self,
        has: impl Fn(&Ask<'_>) -> bool,
        demand: impl Fn(&'a Ask<'k>) -> Demand<'a>,
    ) -> LimiterFuture<JointDecision> {
        let asks = || self.asks.iter().filter(|ask| has(ask));
        // Each is one demand, and few have more.
        let mut demands = Vec::with_capacity(self.asks.len());
        demands.extend(asks().map(demand));
        for ask in asks() {
            if let Some(block) = &ask.rule.settings.block {
                demands.extend::<[_; BLOCK_DEMANDS]>(block.blocks.demands(&ask.key));
            }
        }
        limiter_core::decide(&demands)
    }

    /// Stores a decision over the rules that `has` selects.
    pub(super) fn record(&mut self, joint: JointDecision, has: impl Fn(&Ask<'_>) -> bool) {
        let asked = || self.asks.iter().filter(|ask| has(ask));
        let mut block_demands = asked().count()..joint.len();
        let asked = self.asks.iter_mut().filter(|ask| has(ask));
        for (index, ask) in asked.enumerate() {
            ask.answer = joint.decision(index).map(Ok);
            if ask.rule.settings.block.is_some() {
                let decisions = block_demands.by_ref().take(BLOCK_DEMANDS);
                if let Some(wait) = blocked_for(&joint, decisions) {
                    ask.set_blocked(wait);
                }
            }
        }
        let mut asked = self.asks.iter_mut().filter(|ask| has(ask)).enumerate();
        for (index, receipt) in joint.into_receipts() {
            if let Some((_, ask)) = asked.find(|(place, _)| *place == index) {
                ask.receipt = Some(receipt);
            }
        }
    }

    /// Notes that the rules have decided.
    fn set_elapsed(&mut self) {
        self.elapsed = self.asked_at.map(|asked_at| asked_at.elapsed());
    }

    /// Stores a decision over the rules that `has` selects, or what follows for each of them if a store has failed.
    pub(super) async fn store(
        &mut self,
        joint: Result<JointDecision, Error>,
        has: impl Fn(&Ask<'_>) -> bool,
    ) {
        let error = match joint {
            Ok(joint) => return self.record(joint, has),
            Err(error) => error,
        };
        self.may_refund = true;
        // A call whose outcome is not known is not sent again, and none is sent to a store that has just failed.
        self.fail(&error, error.limiter(), &has);
        self.ask_each(|ask| has(ask) && ask.answer.is_none()).await;
    }

    /// Stores an error for the unanswered rules that `has` selects and that need a call to a store: to that of `failed`, or
    /// to any.
    fn fail(&mut self, error: &Error, failed: Option<LimiterId>, has: impl Fn(&Ask<'_>) -> bool) {
        let is_of = |it: LimiterId| failed.is_none_or(|failed| failed.shares_store_with(it));
        let fails = |ask: &&mut Ask<'_>| {
            let is_called = || is_of(ask.plan.limiter().id()) && !ask.is_in_memory();
            has(ask) && ask.answer.is_none() && is_called()
        };
        let failed = self.asks.iter_mut().filter(fails);
        failed.for_each(|ask| ask.answer = Some(Err(error.clone())));
    }

    /// Asks each rule that `has` selects alone, unless one refuses.
    async fn ask_each(&mut self, has: impl Fn(&Ask<'_>) -> bool) {
        for place in 0..self.asks.len() {
            if self.asks.iter().any(Ask::is_refused) {
                return;
            }
            let Some(ask) = self.asks.get(place).filter(|ask| has(ask)) else { continue };
            let (rule, limiter) = (ask.rule, ask.plan.limiter().id());
            let is_it = |ask: &Ask<'_>| ask.rule.is(rule);
            match self.ask(is_it).await {
                Ok(joint) => self.record(joint, is_it),
                Err(error) => {
                    if rule.spec().on_error(&error) != OnError::Reject {
                        self.fail(&error, Some(limiter), &has);
                    }
                    if let Some(ask) = self.asks.get_mut(place) {
                        ask.answer = Some(Err(error));
                    }
                }
            }
        }
    }
}

/// Returns the rejection of a request that a rule can't be asked about, and reports it.
fn rejected(rule: &Rule, reason: Reason, head: Head<'_>) -> Refused {
    rule.report_not_asked(Outcome::Rejected, head);
    Refused::new(rule.live_plan().into_owned(), reason)
}

/// Returns how long a key is blocked, by the decisions on the demands that it is not.
pub(super) fn blocked_for(
    joint: &JointDecision,
    places: impl Iterator<Item = usize>,
) -> Option<Duration> {
    let decisions = places.filter_map(|place| joint.decision(place));
    let refusals = decisions.filter(|decision| !decision.is_admitted());
    refusals.filter_map(|it| it.retry_after()).max()
}

/// Refunds what was charged, because the request is refused or fails.
pub(super) fn refund(asks: &mut [Ask<'_>]) {
    for ask in asks {
        if let Some(receipt) = mem::take(&mut ask.receipt) {
            drop(send(ask.plan.limiter().refund(receipt), ask.rule));
        }
    }
}
