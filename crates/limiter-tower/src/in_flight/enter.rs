//! Enters a rule in a handler, for a message of a WebSocket, or for a job.

use std::{future::Future, pin::Pin};

use limiter_core::Key;

use super::{
    HoldGuard, InFlightRule,
    ask::{Ask, decide},
};
use crate::{
    answer::{Reason, Refused},
    key::Head,
    observe::{Outcome, log},
};

/// A rule that is entered without a layer: see [`InFlightRule::enter`]. Await it.
#[derive(Debug)]
#[must_use = "nothing is counted unless it is awaited"]
pub struct Enter<'r> {
    rule: &'r InFlightRule,
    head: Head<'r>,
    /// `None` if it is the request's.
    key: Option<Key<'r>>,
    limit: Option<u32>,
}

impl InFlightRule {
    /// Takes a permit of `key`, without a request: for a job, a message of a queue or of a WebSocket. The guard holds it
    /// until it is dropped.
    ///
    /// It follows the rule's mode and choice for store failures, and is counted in its metrics. A shadow that refuses, and
    /// a store that fails, return a guard that holds nothing. The limit is the limiter's own; of a rule whose limit
    /// [depends on the request](Self::limit_by), say which by [`Enter::limit`].
    ///
    /// ```
    /// use limiter_tower::{InFlightRule, refusal::Refused};
    ///
    /// async fn render(rule: &InFlightRule, user: &str) -> Result<(), Refused> {
    ///     let guard = rule.enter(user).await?;
    ///     // The work.
    ///     drop(guard);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`] if there is no room. Its reason is [`Reason::Misconfigured`] if the rule's limit depends on the request
    /// and none was said.
    pub fn enter<'r>(&'r self, key: impl Into<Key<'r>>) -> Enter<'r> {
        Enter { rule: self, head: Head::empty(), key: Some(key.into()), limit: None }
    }

    /// Takes a permit for a request in a handler, with the rule's key and limit. If a layer with the rule serves the route
    /// as well, the request has two.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter), and if the request has no key.
    pub fn enter_request<'r>(&'r self, head: impl Into<Head<'r>>) -> Enter<'r> {
        Enter { rule: self, head: head.into(), key: None, limit: None }
    }
}

impl<'r> Enter<'r> {
    /// Sets the limit, in place of the rule's own.
    pub fn limit(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }

    async fn send(self) -> Result<HoldGuard, Refused> {
        let Self { rule, head, key, limit } = self;
        let ask = match key {
            Some(_) if limit.is_none() && rule.settings.limit.is_some() => {
                log::limit_needs_request(rule.name());
                return Err(Refused::new(None, Reason::Misconfigured));
            }
            Some(key) => Some(Ask::new(rule, key, rule.limit())),
            None => Ask::of(rule, head)?,
        };
        let Some(ask) = ask else {
            rule.report_not_asked(Outcome::Bypassed, head);
            return Ok(HoldGuard::new(None));
        };
        let ask = match limit {
            Some(limit) => ask.under(limit),
            None => ask,
        };
        Ok(HoldGuard::new(decide(vec![ask], head).await?.permits))
    }
}

impl<'r> IntoFuture for Enter<'r> {
    type Output = Result<HoldGuard, Refused>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
