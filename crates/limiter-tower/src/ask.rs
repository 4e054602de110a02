//! Asks a rule in a handler, for a message of a WebSocket, or for a job.

use std::{fmt, pin::Pin};

use limiter_core::{Cost, Key};

use crate::{
    answer::{Reason, Refused},
    decisions::PolicyDecision,
    key::Head,
    observe::{Outcome, log},
    request::decide::{Ask, Question},
    rule::{Rule, Strike},
    settle::Charged,
};

/// What a rule has admitted in a handler.
///
/// Dropping it keeps the charge.
pub struct Admission {
    decision: Option<PolicyDecision>,
    charged: Option<Charged>,
}

/// A rule in a handler: see [`Rule::ask`] and [`Rule::check`]. Await it.
#[derive(Debug)]
#[must_use = "nothing is charged unless it is awaited"]
pub struct AskRequest<'r> {
    rule: &'r Rule,
    /// `None` if there is no request.
    head: Option<Head<'r>>,
    key: Option<Key<'r>>,
    cost: Option<Cost>,
}

impl Rule {
    /// Asks the rule about a request in a handler, as a layer does: with the rule's key, plan, cost, mode, wait, metrics
    /// and choice for store failures. If a layer with the rule serves the route as well, both charge. There is no response
    /// to settle by: use [`Admission::keep`].
    ///
    /// ```
    /// use http::request::Parts;
    /// use limiter_core::{Cost, Error};
    /// use limiter_tower::{Rule, refusal::Refused};
    ///
    /// /// Charges as many permits as the body has items.
    /// async fn import(rule: &Rule, parts: &Parts, items: Vec<u64>) -> Result<String, Refused> {
    ///     let cost = Cost::new(items.len() as u64).unwrap_or(Cost::ONE);
    ///     rule.ask(parts).cost(cost).await?;
    ///     Ok(format!("imported {} items", items.len()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`] if the rule does not admit the request.
    pub fn ask<'r>(&'r self, head: impl Into<Head<'r>>) -> AskRequest<'r> {
        AskRequest { rule: self, head: Some(head.into()), key: None, cost: None }
    }

    /// Asks the rule about `key`, without a request: for a job, a message of a queue or of a WebSocket. It charges one
    /// permit, unless [`cost`](AskRequest::cost) says how many.
    ///
    /// It follows the rule's mode, wait and choice for store failures, and is counted in its metrics. The policy is the
    /// rule's own; of a rule whose [plan](Self::plan) depends on the request, say which by [`under`](Self::under).
    ///
    /// ```
    /// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
    /// use limiter_tower::{Rule, key::FixedKey, refusal::Refused};
    ///
    /// # async fn example() -> Result<(), Refused> {
    /// let limiter = MemoryLimiter::new(Policy::gcra("tokens", Quota::per_minute(10_000)));
    /// let rule = Rule::new(limiter, FixedKey::new("all"));
    /// // Enough for most answers.
    /// let admission = rule.check("alice").cost(Cost::of(1_000)).await?;
    /// // The answer had 1,200: the difference is charged.
    /// admission.keep(1_200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`] if the rule does not admit it. Its reason is [`Reason::Misconfigured`] if the rule's plan depends on the
    /// request.
    pub fn check<'r>(&'r self, key: impl Into<Key<'r>>) -> AskRequest<'r> {
        AskRequest { rule: self, head: None, key: Some(key.into()), cost: Some(Cost::ONE) }
    }
}

impl<'r> AskRequest<'r> {
    /// Sets the key, in place of the rule's own.
    pub fn key(self, key: impl Into<Key<'r>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the cost, in place of the rule's own.
    pub fn cost(self, cost: Cost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    async fn send(self) -> Result<Admission, Refused> {
        let Self { rule, head, key, cost } = self;
        if head.is_none() && rule.selects_by_request() {
            log::plan_needs_request(rule.name());
            return Err(Refused::new(rule.live_plan().into_owned(), Reason::Misconfigured));
        }
        let empty: Head<'r> = Head::empty();
        let head = head.unwrap_or(empty);
        let ask = match key {
            Some(key) => Ask::by_key(rule, key, cost, head)?,
            None => Ask::of(rule, head)?,
        };
        let Some(ask) = ask else {
            rule.report_not_asked(Outcome::Bypassed, head);
            return Ok(Admission { decision: None, charged: None });
        };
        let ask = Ask { cost: cost.unwrap_or(ask.cost), ..ask };
        let ask = Question::new(vec![ask]).decide(head).await?.pop();
        Ok(Admission {
            decision: ask.as_ref().and_then(Ask::decided),
            charged: ask.and_then(|ask| ask.charged(true)),
        })
    }
}

impl<'r> IntoFuture for AskRequest<'r> {
    type Output = Result<Admission, Refused>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Admission {
    /// Returns the decision, `None` if the store failed or the rule does not count the request.
    #[must_use]
    pub const fn decision(&self) -> Option<&PolicyDecision> {
        self.decision.as_ref()
    }

    /// Counts a strike of the key, if the rule [blocks](Rule::block_by_response) keys: for outcomes that a handler sees, as there is
    /// no response to judge by. It is sent now, without waiting for it.
    pub fn strike(&self) {
        self.send(Strike::Count);
    }

    /// Forgets the key's strikes, if the rule's block clears on success.
    pub fn success(&self) {
        self.send(Strike::Success);
    }

    fn send(&self, strike: Strike) {
        if let Some(charged) = &self.charged {
            charged.send(strike);
        }
    }

    /// Sets what was used: refunds what was charged above `permits`, as far as it still counts, or charges the
    /// difference, whether or not it fits. It is sent now, without waiting for it.
    pub fn keep(mut self, permits: u64) {
        if let Some(charged) = &mut self.charged {
            charged.keep(permits);
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("decision", &self.decision).finish_non_exhaustive()
    }
}
