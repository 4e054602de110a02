//! The fast path of a rule whose limiter is in memory.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use limiter_core::{Cost, Decision, Limiter};

use super::Spec;
use crate::{
    key::{Head, KeyExtractor},
    observe::{Event, Outcome, log},
    plan::Plan,
};

pub(super) type CostFn = Arc<dyn Fn(Head<'_>) -> Cost + Send + Sync>;

/// A limiter and a key extractor as types of their own, so that a check is one virtual call and the rest is inlined.
pub(super) struct Typed<L, K> {
    pub(super) limiter: Arc<L>,
    pub(super) key: Arc<K>,
}

/// Counts a request by a limiter in memory.
pub(super) trait Check: Send + Sync {
    /// Returns the limiter, under the policy that it was made with.
    fn limiter(&self) -> &dyn Limiter;

    /// Returns the decision and the cost, and reports it. `None` if the request has no key, which charges nothing.
    fn check(
        &self,
        spec: &Spec,
        plan: &Plan,
        cost: Option<&CostFn>,
        head: Head<'_>,
    ) -> Option<(Decision, Cost)>;
}

impl<L: Limiter, K: KeyExtractor> Check for Typed<L, K> {
    fn limiter(&self) -> &dyn Limiter {
        &*self.limiter
    }

    fn check(
        &self,
        spec: &Spec,
        plan: &Plan,
        cost: Option<&CostFn>,
        head: Head<'_>,
    ) -> Option<(Decision, Cost)> {
        // Not moved out of the result: what was just written is slow to copy.
        let key = self.key.key(head);
        let key = key.as_ref().ok()?;
        let cost = cost.map_or(Cost::ONE, |cost| cost(head));
        let asked_at = spec.is_observed().then(Instant::now);
        let mut checked = self.limiter.check_n(key, cost);
        let decision = match checked.take_ready() {
            Some(decision) => decision,
            None => at_once(checked)?,
        };
        let decision = decision.ok()?;
        let outcome = if decision.is_admitted() { Outcome::Allowed } else { Outcome::Denied };
        if !decision.is_admitted() {
            log::refused(spec.name(), &decision);
        }
        if let Some(asked_at) = asked_at {
            let elapsed = Some(asked_at.elapsed());
            let event = spec.rate_event(plan, outcome, head);
            spec.report(&Event { key: Some(key), decision: Some(&decision), elapsed, ..event });
        }
        Some((decision, cost))
    }
}

/// Returns what limiters in memory answer, which is there at the first poll: without a box for the future.
pub(crate) fn at_once<T>(asking: impl Future<Output = T>) -> Option<T> {
    match pin!(asking).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
