//! Asks a rule inside a handler.

use std::{error, fmt, future::poll_fn};

use bytes::Bytes;
use http::Response;
use limiter_core::{Cost, Decision, Key};

use super::RuleHandle;
use crate::{
    check::RuleCheck,
    config::EventDetails,
    key::Head,
    observe::{Outcome, PolicyDecision},
};

impl RuleHandle<'_> {
    /// Charges `cost` to `key` as the layer does, inside a handler: for a key or a cost that is in the
    /// request's body, for a message of a WebSocket, or for a job.
    ///
    /// It follows the rule's mode, delay and choice for store failures, and reports the outcome.
    /// Returns the decision, or `None` if the store failed or the layer is switched off. If the layer
    /// serves the route as well, the request is charged by both. Without a request, use
    /// [`Head::empty`].
    ///
    /// ```
    /// use http::request::Parts;
    /// use limiter_core::{Cost, Key};
    /// use limiter_tower::handle::{Handle, Refused};
    ///
    /// /// Charges as many permits as the body has items.
    /// async fn import(handle: Handle, parts: &Parts, items: Vec<u64>) -> Result<String, Refused> {
    ///     if let (Ok(rule), Ok(cost)) = (handle.rule("import"), Cost::new(items.len() as u64)) {
    ///         rule.check(parts, &Key::from("tenant"), cost).await?;
    ///     }
    ///     Ok(format!("imported {} items", items.len()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], which is the layer's own response to such a request.
    pub async fn check(
        self,
        head: impl Into<Head<'_>>,
        key: &Key<'_>,
        cost: Cost,
    ) -> Result<Option<PolicyDecision>, Refused> {
        let Self { config, rule } = self;
        let head = head.into();
        if config.is_off.get() {
            config.report(rule, &rule.plan.get(), Outcome::Bypassed, EventDetails::default(), head);
            return Ok(None);
        }
        let (mut rule_check, mut answer) = RuleCheck::ask(config, rule, head, key, cost, false);
        let mut result = poll_fn(|cx| answer.poll(cx)).await;
        if let Some(mut wait) = rule_check.wait(rule, &result, || Some(key.into())) {
            result = poll_fn(|cx| wait.poll(cx)).await;
        }
        rule_check.conclude(config, rule, &[], result.map(|(decision, _)| decision), head)
    }
}

/// A rule has refused what a handler asked for.
///
/// With the feature `axum` it is a response, so handlers can return it as their error.
#[derive(Debug)]
pub struct Refused(Box<Inner>);

#[derive(Debug)]
struct Inner {
    response: Response<Bytes>,
    decision: Option<Decision>,
}

impl Refused {
    pub(crate) fn new(response: Response<Bytes>, decision: Option<Decision>) -> Self {
        Self(Box::new(Inner { response, decision }))
    }

    /// Returns the response to the client.
    #[must_use]
    pub fn into_response(self) -> Response<Bytes> {
        self.0.response
    }

    /// Returns the decision, if a limit has refused.
    #[must_use]
    pub const fn decision(&self) -> Option<Decision> {
        self.0.decision
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rate limit refused the request")
    }
}

impl error::Error for Refused {}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        self.0.response.map(axum::body::Body::from)
    }
}
