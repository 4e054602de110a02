//! One rule that is asked about one request.

use std::time::{Duration, Instant};

use limiter_core::{Entry, Error, Key, LimiterFuture, Occupancy, Source};

use super::{
    InFlightRule,
    permits::{Permits, RulePermit},
    report::Details,
};
use crate::{
    decisions::{Decisions, InFlightDecision},
    key::{Head, KeySource, MissingKey},
    observe::Outcome,
    respond::{Reason, Refused},
    rule::{Mode, OnError},
};

/// What one rule is asked about a request, and its answer.
pub(crate) struct InFlightAsk<'k> {
    pub(crate) rule: InFlightRule,
    key: Key<'k>,
    limit: u32,
    pub(crate) is_shadow: bool,
    /// `None` if the rule has not answered, or has room as far as a peek knows.
    answer: Option<Result<Answer, Error>>,
    /// `None` unless it was taken.
    permit: Option<RulePermit>,
    /// When it was entered, if that is reported.
    asked_at: Option<Instant>,
    /// How long the limiter took to decide, if that is reported.
    elapsed: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Answer {
    is_admitted: bool,
    occupancy: Occupancy,
}

impl InFlightRule {
    /// Returns what the rule is asked about a request, `None` if it does not count it.
    pub(crate) fn asked<'k>(&self, head: Head<'k>) -> Result<Option<InFlightAsk<'k>>, MissingKey> {
        match self.settings.key.key(head) {
            Ok(key) => Ok(Some(InFlightAsk::new(self, key, self.limit_of(head)))),
            Err(MissingKey::Skipped) => Ok(None),
            Err(missing) => {
                self.live().log_missing_key(&missing);
                // A shadow never answers a client.
                if self.mode() == Mode::SHADOW { Ok(None) } else { Err(missing) }
            }
        }
    }

    fn limit_of(&self, head: Head<'_>) -> u32 {
        let own = self.limit();
        self.settings.limit.as_ref().map_or(own, |limit| limit(head, own))
    }

    pub(crate) fn source(&self) -> KeySource {
        self.settings.key.source()
    }

    /// Returns whether there are requests that the rule does not count.
    pub(crate) fn skips(&self) -> bool {
        self.settings.key.skips()
    }
}

impl<'k> InFlightAsk<'k> {
    pub(super) fn new(rule: &InFlightRule, key: Key<'k>, limit: u32) -> Self {
        let is_shadow = !rule.mode().enforces(rule.name(), &key);
        Self {
            rule: rule.clone(),
            key,
            limit,
            is_shadow,
            answer: None,
            permit: None,
            asked_at: None,
            elapsed: None,
        }
    }

    /// Sets the limit, in place of the rule's own.
    pub(super) fn under(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn into_owned(self) -> InFlightAsk<'static> {
        let Self { rule, key, limit, is_shadow, answer, permit, asked_at, elapsed } = self;
        let key = key.into_owned();
        InFlightAsk { rule, key, limit, is_shadow, answer, permit, asked_at, elapsed }
    }

    /// Returns whether the rule has not answered.
    pub(crate) const fn is_to_be_entered(&self) -> bool {
        self.answer.is_none()
    }

    /// Refuses the request if the limiter is full, as far as it answers without a call to a store.
    pub(crate) fn peek(&mut self) {
        let peeked = self.rule.settings.limiter.peek(&self.key, self.limit).take_ready();
        // Without a state, the limiter decides when it is entered.
        let is_full = |it: &Occupancy| it.source() == Source::State && !it.has_room();
        if let Some(occupancy) = peeked.and_then(Result::ok).filter(is_full) {
            self.answer = Some(Ok(Answer { is_admitted: false, occupancy }));
        }
    }

    /// Takes a permit. The answer is for [`entered`](Self::entered).
    pub(crate) fn enter(&mut self) -> LimiterFuture<Entry> {
        let is_timed = cfg!(feature = "metrics") || self.rule.is_observed();
        self.asked_at = is_timed.then(Instant::now);
        self.rule.settings.limiter.enter(&self.key, self.limit)
    }

    /// Stores an entry, and its permit.
    pub(crate) fn entered(&mut self, entered: Result<Entry, Error>) {
        self.elapsed = self.asked_at.map(|asked_at| asked_at.elapsed());
        self.answer = Some(entered.map(|entry| {
            let answer = Answer { is_admitted: entry.is_admitted(), occupancy: entry.occupancy() };
            let permit = entry.into_permit();
            self.permit =
                permit.map(|permit| RulePermit::new(&self.rule, &self.key, self.is_shadow, permit));
            answer
        }));
    }

    /// Returns the permit, if one was taken.
    pub(crate) fn take_permit(&mut self) -> Option<RulePermit> {
        self.permit.take()
    }

    /// Returns whether the request is not forwarded because of this rule's answer.
    pub(crate) fn is_refused(&self) -> bool {
        !self.is_shadow
            && self.answer.as_ref().is_some_and(|answer| match answer {
                Ok(answer) => !answer.is_admitted,
                Err(error) => self.on_error(error) != OnError::Forward,
            })
    }

    /// Returns whether the store failed.
    const fn has_failed(&self) -> bool {
        matches!(self.answer, Some(Err(_)))
    }

    fn on_error(&self, error: &Error) -> OnError {
        OnError::of(error, self.rule.settings.on_store_failure)
    }

    /// Returns what became of the request under this rule, and reports it. `None` if the rule has not answered.
    pub(crate) fn conclude(&self) -> Option<Outcome> {
        let answer = self.answer.as_ref()?;
        let outcome = match answer {
            Ok(Answer { is_admitted, occupancy }) => {
                if occupancy.source() == Source::State {
                    self.rule.live().store_answered();
                }
                match (is_admitted, self.is_shadow) {
                    (true, _) => Outcome::Allowed,
                    (false, true) => Outcome::ShadowDenied,
                    (false, false) => Outcome::Denied,
                }
            }
            Err(error) => {
                let follows = self.on_error(error);
                self.rule.live().log_failure(follows, self.rule.settings.on_store_failure, error);
                match (follows, self.is_shadow) {
                    (OnError::Forward, _) | (_, true) => Outcome::ErrorAllowed,
                    (OnError::Deny, false) => Outcome::ErrorDenied,
                    (OnError::Reject, false) => Outcome::Rejected,
                }
            }
        };
        self.rule.report(
            outcome,
            Details {
                key: Some(&self.key),
                occupancy: answer.as_ref().ok().map(|answer| answer.occupancy),
                error: answer.as_ref().err(),
                elapsed: self.elapsed,
            },
        );
        Some(outcome)
    }

    /// Returns the decision, `None` if the store failed or the rule was not asked.
    pub(crate) fn decided(&self) -> Option<InFlightDecision> {
        let Answer { is_admitted, occupancy } = *self.answer.as_ref()?.as_ref().ok()?;
        let settings = &self.rule.settings;
        Some(InFlightDecision {
            rule: self.rule.live().name.clone(),
            occupancy,
            is_admitted,
            is_shadow: self.is_shadow,
            is_unavailable: settings.is_unavailable,
            disclosure: settings.disclosure,
        })
    }
}

/// Returns the refusal of a request, and reports it. `None` if no rule refuses it: by limits, or else for the first other
/// reason.
pub(crate) fn refused(asks: &[InFlightAsk<'_>]) -> Option<Refused> {
    let refusing = || asks.iter().filter(|ask| ask.is_refused());
    refusing().next()?;
    // Stores that failed are reported, too.
    let reported = asks.iter().filter(|ask| ask.is_refused() || ask.has_failed());
    let outcomes: Vec<_> = reported.filter_map(InFlightAsk::conclude).collect();
    let by_limit: Vec<_> = refusing().filter_map(InFlightAsk::decided).collect();
    let first = outcomes.into_iter().find(|outcome| outcome.is_refusal())?;
    let reason = if by_limit.is_empty() {
        Reason::without_decision(first)
    } else {
        Reason::InFlight(Decisions::default().with_in_flight(by_limit))
    };
    Some(Refused::new(None, reason))
}

/// Returns the permits that were taken, and what was decided, and reports it.
pub(crate) fn admitted(
    mut asks: Vec<InFlightAsk<'_>>,
) -> (Option<std::sync::Arc<Permits>>, Vec<InFlightDecision>) {
    asks.iter().for_each(|ask| {
        ask.conclude();
    });
    let permits = asks.iter_mut().filter_map(InFlightAsk::take_permit).collect();
    (Permits::new(permits), asks.iter().filter_map(InFlightAsk::decided).collect())
}
