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

mod queue;

use std::{
    borrow::Cow,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use limiter_core::{
    Cost, Decision, Demand, Error, JointDecision, Key, LimiterFuture, LimiterId, Receipt, Usage,
};

use crate::{
    key::{Head, MissingKey},
    observe::Outcome,
    plan::Plan,
    rule::{OnError, Rule},
    settle::send,
};

/// How many demands ask whether a key is blocked.
const BLOCK_DEMANDS: usize = 2;

/// What one rule is asked about a request, and its answer.
pub(crate) struct Ask<'k> {
    pub(crate) rule: Cow<'k, Rule>,
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
#[derive(Default)]
pub(crate) struct Question<'k> {
    pub(crate) asks: Vec<Ask<'k>>,
    /// Whether a charge may be refunded, also if all rules admit the request.
    may_refund: bool,
    /// When the rules were asked, if that is reported.
    asked_at: Option<Instant>,
    /// How long they took to decide, without a delay.
    pub(crate) elapsed: Option<Duration>,
}

/// A question whose answers are awaited. What was charged stays if it is dropped, because a client can go away at any
/// time: were it refunded, no limit would count requests that are reset.
pub(crate) struct Pending {
    answers: Pin<Box<dyn Future<Output = Question<'static>> + Send>>,
    is_waiting: Arc<AtomicBool>,
}

impl<'k> Ask<'k> {
    pub(crate) fn new(rule: &'k Rule, plan: Cow<'k, Plan>, key: Key<'k>, cost: Cost) -> Self {
        Self {
            rule: Cow::Borrowed(rule),
            plan,
            is_shadow: !rule.enforces(&key),
            key,
            cost,
            answer: None,
            receipt: None,
            outcome: None,
            is_blocked: false,
            waited: None,
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
    fn question(&self) -> Demand<'_> {
        Demand::only_ask(self.plan.limiter(), &self.key, self.cost)
    }

    /// Refuses the request for a time, because the key is blocked. It is reported as a refusal by the rule, of which no
    /// permits are left.
    fn set_blocked(&mut self, wait: Duration) {
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

    pub(crate) fn into_owned(self) -> Ask<'static> {
        let Self { rule, plan, key, cost, is_shadow, answer, receipt, outcome, is_blocked, waited } =
            self;
        let (rule, plan) = (Cow::Owned(rule.into_owned()), Cow::Owned(plan.into_owned()));
        let key = key.into_owned();
        Ask { rule, plan, key, cost, is_shadow, answer, receipt, outcome, is_blocked, waited }
    }

    /// Returns whether the request is not forwarded because of this rule's answer.
    pub(crate) fn is_refused(&self) -> bool {
        !self.is_shadow
            && self.answer.as_ref().is_some_and(|answer| match answer {
                Ok(decision) => !decision.is_admitted(),
                Err(error) => self.rule.on_error(error) != OnError::Forward,
            })
    }

    /// Returns whether the limiter decides without a call to a store.
    fn is_in_memory(&self) -> bool {
        self.plan.limiter().preview(&self.key, self.cost).is_some()
    }
}

impl<'k> Question<'k> {
    /// Returns what the rules are asked about a request. Calls `skipped` with each rule that does not count it.
    ///
    /// # Errors
    ///
    /// The first rule without a key for the request.
    pub(crate) fn of(
        rules: &'k [Rule],
        head: Head<'k>,
        may_refund: bool,
        asked_at: Option<Instant>,
        skipped: impl Fn(&Rule),
    ) -> Result<Self, (&'k Rule, MissingKey)> {
        let mut asks = Vec::with_capacity(rules.len());
        for rule in rules {
            match rule.counted_key(head) {
                Ok(Some(key)) => {
                    asks.push(Ask::new(rule, rule.plan_of(head), key, rule.cost_of(head)));
                }
                Ok(None) => skipped(rule),
                Err(missing) => return Err((rule, missing)),
            }
        }
        Ok(Self { may_refund, ..Self::new(asks, asked_at) })
    }

    pub(crate) const fn new(asks: Vec<Ask<'k>>, asked_at: Option<Instant>) -> Self {
        Self { asks, may_refund: true, asked_at, elapsed: None }
    }

    /// Asks the rules. Returns the answers if all of them are known at once.
    pub(crate) fn ask(mut self) -> Result<Self, Pending> {
        let mut joint = self.decide(|ask| !ask.is_shadow);
        let is_final = joint.as_ready().and_then(|it| it.as_ref().ok()).is_some_and(|joint| {
            let is_unasked = |ask: &Ask<'_>| match joint.is_admitted() {
                true => ask.is_shadow,
                false => ask.rule.settings.wait.is_some(),
            };
            !self.asks.iter().any(is_unasked)
        });
        if is_final && let Some(Ok(joint)) = joint.take_ready() {
            self.set_elapsed();
            self.record(joint, |ask| !ask.is_shadow);
            return Ok(self);
        }
        let is_waiting = Arc::new(AtomicBool::new(false));
        let answers = Box::pin(self.into_owned().answers(joint, Arc::clone(&is_waiting)));
        Err(Pending { answers, is_waiting })
    }

    /// Asks for one decision over the rules that `has` selects.
    fn decide(&self, has: impl Fn(&Ask<'_>) -> bool) -> LimiterFuture<JointDecision> {
        self.decide_by(has, |ask| ask.demand(self.may_refund))
    }

    /// Asks for one decision over the rules that `has` selects, by a demand on each.
    fn decide_by<'a>(
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
    fn record(&mut self, joint: JointDecision, has: impl Fn(&Ask<'_>) -> bool) {
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

    /// Stores the answer of the only rule.
    pub(crate) fn answered(&mut self, answer: Result<Decision, Error>) {
        self.set_elapsed();
        if let Some(ask) = self.asks.first_mut() {
            ask.answer = Some(answer);
        }
    }

    /// Notes that the rules have decided.
    fn set_elapsed(&mut self) {
        self.elapsed = self.elapsed.or_else(|| self.asked_at.map(|asked_at| asked_at.elapsed()));
    }

    pub(crate) fn into_owned(self) -> Question<'static> {
        let Self { asks, may_refund, asked_at, elapsed } = self;
        let asks = asks.into_iter().map(Ask::into_owned).collect();
        Question { asks, may_refund, asked_at, elapsed }
    }
}

impl Question<'static> {
    /// Returns the answers, once they are known. Sets `is_waiting` before the request waits for permits.
    async fn answers(
        mut self,
        first: LimiterFuture<JointDecision>,
        is_waiting: Arc<AtomicBool>,
    ) -> Self {
        let first = first.await;
        self.set_elapsed();
        self.store(first, |ask| !ask.is_shadow).await;
        self.queue(&is_waiting).await;
        self.ask_each(|ask| ask.is_shadow).await;
        self
    }

    /// Stores a decision over the rules that `has` selects, or what follows for each of them if a store has failed.
    async fn store(&mut self, joint: Result<JointDecision, Error>, has: impl Fn(&Ask<'_>) -> bool) {
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
            let (rule, limiter) = (Rule::clone(&ask.rule), ask.plan.limiter().id());
            let is_it = |ask: &Ask<'_>| ask.rule.is(&rule);
            match self.decide(is_it).await {
                Ok(joint) => self.record(joint, is_it),
                Err(error) => {
                    if rule.on_error(&error) != OnError::Reject {
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

impl Pending {
    /// Returns whether the request waits for permits, and not for a decision.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Question<'static>> {
        self.answers.as_mut().poll(cx)
    }

    /// Returns the answer of one rule that was asked alone.
    pub(crate) fn check(mut question: Question<'static>, answer: LimiterFuture<Decision>) -> Self {
        let answers = Box::pin(async move {
            question.answered(answer.await);
            question
        });
        Self { answers, is_waiting: Arc::default() }
    }
}

/// Returns how long a key is blocked, by the decisions on the demands that it is not.
fn blocked_for(joint: &JointDecision, places: impl Iterator<Item = usize>) -> Option<Duration> {
    let decisions = places.filter_map(|place| joint.decision(place));
    let refusals = decisions.filter(|decision| !decision.is_admitted());
    refusals.filter_map(|it| it.retry_after()).max()
}

/// Refunds what was charged, because the request is refused or fails.
pub(crate) fn refund(asks: &mut [Ask<'_>]) {
    for ask in asks {
        if let Some(receipt) = mem::take(&mut ask.receipt) {
            send(ask.plan.limiter().refund(receipt), &ask.rule);
        }
    }
}
