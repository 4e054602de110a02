//! The decision on one request by limits on requests in flight.
//!
//! The order is fixed, whatever the list of rules says:
//!
//! 1. Each rule's key and limit are read. A request without a key is rejected before a permit is taken.
//! 2. A permit of each enforced rule is taken: of the client's own keys first. If one is full, those that were taken are
//!    given back, and the others in memory are asked whether they are full, too, for the refusal to name them.
//! 3. Shadows are asked once the others have admitted the request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{Error, Key, Occupancy, Source};

use super::{
    InFlightRule,
    permits::{Permits, RulePermit},
};
use crate::{
    answer::{Reason, Refused},
    decisions::{Decisions, InFlightDecision},
    key::Head,
    observe::{Event, Outcome, log},
    request::common::asks,
    rule::OnError,
};

/// What one rule is asked about a request, and its answer.
pub(super) struct Ask<'k> {
    rule: &'k InFlightRule,
    key: Key<'k>,
    limit: u32,
    is_shadow: bool,
    /// `None` if the rule was not asked, or has room as far as a peek knows.
    answer: Option<Result<(bool, Occupancy), Error>>,
    /// `None` unless it was taken.
    permit: Option<Arc<RulePermit>>,
    /// How long the limiter took to decide, if that is reported.
    elapsed: Option<Duration>,
}

/// What all rules have admitted.
#[derive(Default)]
pub(super) struct Entered {
    /// `None` if no permit was taken: all limits are shadows or failed.
    pub(super) permits: Option<Arc<Permits>>,
    pub(super) decisions: Vec<InFlightDecision>,
}

/// Takes permits of all rules that count a request.
///
/// # Errors
///
/// [`Refused`] if a rule refuses. What was taken is given back.
pub(super) async fn enter(rules: &[InFlightRule], head: Head<'_>) -> Result<Entered, Refused> {
    decide(asks(rules, head, Ask::of)?, head).await
}

/// Asks the rules, and reports what each did. A rule that would have admitted a refused request reports nothing.
pub(super) async fn decide(mut asks: Vec<Ask<'_>>, head: Head<'_>) -> Result<Entered, Refused> {
    for is_shadow in [false, true] {
        for ask in asks.iter_mut().filter(|ask| ask.is_shadow == is_shadow) {
            ask.enter().await;
            if ask.is_refused() {
                return Err(refuse(asks, head));
            }
        }
    }
    asks.iter().for_each(|ask| {
        ask.conclude(head);
    });
    let decisions = asks.iter().filter_map(Ask::decided).collect();
    let permits = asks.into_iter().filter_map(|ask| ask.permit).collect();
    Ok(Entered { permits: Permits::new(permits), decisions })
}

/// Returns the refusal by limits, or else for the first other reason, and reports it.
fn refuse(mut asks: Vec<Ask<'_>>, head: Head<'_>) -> Refused {
    asks.iter_mut().filter(|ask| !ask.is_shadow && ask.answer.is_none()).for_each(Ask::peek);
    let has_failed = |ask: &&Ask<'_>| ask.is_refused() || matches!(ask.answer, Some(Err(_)));
    let outcomes = asks.iter().filter(has_failed).filter_map(|ask| ask.conclude(head));
    let outcomes: Vec<_> = outcomes.collect();
    let by_limit: Vec<_> =
        asks.iter().filter(|ask| ask.is_refused()).filter_map(Ask::decided).collect();
    let reason = match outcomes.into_iter().find(|outcome| outcome.is_refusal()) {
        Some(first) if by_limit.is_empty() => Reason::without_decision(first),
        _ => Reason::InFlight(Decisions::of_in_flight(by_limit)),
    };
    Refused::new(None, reason)
}

impl<'k> Ask<'k> {
    pub(super) fn new(rule: &'k InFlightRule, key: Key<'k>, limit: u32) -> Self {
        let is_shadow = !rule.spec().enforces(&key);
        Self { rule, key, limit, is_shadow, answer: None, permit: None, elapsed: None }
    }

    /// Returns what the rule is asked about a request, `None` if it does not count it.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the rule has no key for the request.
    pub(super) fn of(rule: &'k InFlightRule, head: Head<'k>) -> Result<Option<Self>, Refused> {
        match rule.spec().counted_key(head) {
            Ok(Some(key)) => Ok(Some(Self::new(rule, key, rule.limit_of(head)))),
            Ok(None) => Ok(None),
            Err(missing) => {
                rule.report_not_asked(Outcome::Rejected, head);
                Err(Refused::new(None, Reason::Rejected(missing)))
            }
        }
    }

    /// Sets the limit, in place of the rule's own.
    pub(super) fn under(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// Refuses the request if the limiter is full, as far as it answers without a call to a store.
    fn peek(&mut self) {
        let peeked = self.rule.limiter().peek(&self.key, self.limit).take_ready();
        // Without a state, the limiter decides when it is entered.
        let is_full = |it: &Occupancy| it.source() == Source::State && !it.has_room();
        self.answer =
            peeked.and_then(Result::ok).filter(is_full).map(|occupancy| Ok((false, occupancy)));
    }

    /// Takes a permit. A full limit is asked a second time once it has back what was held for too long.
    async fn enter(&mut self) {
        let asked_at = self.rule.spec().is_observed().then(Instant::now);
        let limiter = self.rule.limiter();
        let mut entered = limiter.enter(&self.key, self.limit).await;
        if let Some(full) = entered.as_ref().ok().filter(|entry| !entry.is_admitted()) {
            let is_table_full = full.occupancy().source() == Source::FullTable;
            if self.rule.give_back_old(&self.key, is_table_full) {
                entered = limiter.enter(&self.key, self.limit).await;
            }
        }
        self.elapsed = asked_at.map(|asked_at| asked_at.elapsed());
        self.answer = Some(entered.map(|entry| {
            let answer = (entry.is_admitted(), entry.occupancy());
            let permit = entry.into_permit();
            self.permit =
                permit.map(|permit| RulePermit::new(self.rule, &self.key, self.is_shadow, permit));
            answer
        }));
    }

    /// Returns whether the request is not forwarded because of this rule's answer.
    fn is_refused(&self) -> bool {
        !self.is_shadow
            && self.answer.as_ref().is_some_and(|answer| match answer {
                Ok((is_admitted, _)) => !is_admitted,
                Err(error) => self.rule.spec().on_error(error) != OnError::Forward,
            })
    }

    /// Returns what became of the request under this rule, and reports it. `None` if the rule was not asked.
    fn conclude(&self, head: Head<'_>) -> Option<Outcome> {
        let answer = self.answer.as_ref()?;
        let (spec, occupancy) = (self.rule.spec(), answer.as_ref().ok().map(|answer| answer.1));
        let outcome = match answer {
            Err(error) => spec.failed(error, self.is_shadow),
            Ok((is_admitted, occupancy)) => {
                if occupancy.source() == Source::State {
                    spec.store_decided();
                }
                match (is_admitted, self.is_shadow) {
                    (true, _) => Outcome::Allowed,
                    (false, true) => Outcome::ShadowDenied,
                    (false, false) => Outcome::Denied,
                }
            }
        };
        if let (Outcome::Denied, Some(occupancy)) = (outcome, occupancy) {
            log::in_flight_refused(spec.name(), occupancy);
        }
        spec.report(&Event {
            key: Some(&self.key),
            occupancy,
            error: answer.as_ref().err(),
            elapsed: self.elapsed,
            ..self.rule.event(outcome, head)
        });
        Some(outcome)
    }

    /// Returns the decision, `None` if the store failed or the rule was not asked.
    fn decided(&self) -> Option<InFlightDecision> {
        let (is_admitted, occupancy) = *self.answer.as_ref()?.as_ref().ok()?;
        Some(InFlightDecision {
            rule: self.rule.spec().live.name.clone(),
            occupancy,
            is_admitted,
            is_shadow: self.is_shadow,
            is_unavailable: self.rule.settings.is_unavailable,
            disclosure: self.rule.spec().disclosure,
        })
    }
}
