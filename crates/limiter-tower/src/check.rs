//! Asks the limiter of one rule.

use std::{
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use limiter_core::{Cost, Decision, Error, Key, LimiterFuture, Receipt, Reservation, Source};

use crate::{
    config::{Config, EventDetails},
    handle::Refused,
    key::Head,
    observe::{Outcome, PolicyDecision, log},
    plan::Plan,
    respond::{Refusal, insert, respond},
    rule::{Disclosure, OnError, Rule},
    wait::WaiterGuard,
};

/// A check of one rule.
pub(crate) struct RuleCheck {
    pub(crate) plan: Plan,
    cost: Cost,
    is_shadow: bool,
    /// When the limiter was asked, if that is to be reported.
    started: Option<Instant>,
    /// How long the limiter took to decide, if the request waited after that.
    elapsed: Option<Duration>,
    /// Since when the request has waited for permits.
    waits_since: Option<Instant>,
}

/// The answer that is awaited.
pub(crate) enum PendingAnswer {
    Check(LimiterFuture<Decision>),
    /// As `Check`, with a receipt.
    Reserve(LimiterFuture<Reservation>),
    /// After a refusal.
    Wait(
        LimiterFuture<Reservation>,
        #[expect(dead_code, reason = "dropping it frees the place")] WaiterGuard,
    ),
}

/// What a limiter returned.
pub(crate) type CheckResult = Result<(Decision, Option<Receipt>), Error>;

impl RuleCheck {
    /// Asks the limiter.
    pub(crate) fn ask(
        config: &Config,
        rule: &Rule,
        head: Head<'_>,
        key: &Key<'_>,
        cost: Cost,
        needs_receipt: bool,
    ) -> (Self, PendingAnswer) {
        let plan = rule.plan(head);
        let is_shadow = !rule.enforces(key);
        let started = config.is_observed().then(Instant::now);
        let answer = if needs_receipt {
            PendingAnswer::Reserve(plan.limiter().reserve(key, cost, Duration::ZERO))
        } else {
            PendingAnswer::Check(plan.limiter().check_n(key, cost))
        };
        (Self::of(plan, cost, is_shadow, started), answer)
    }

    /// Returns a check that was sent.
    pub(crate) const fn of(
        plan: Plan,
        cost: Cost,
        is_shadow: bool,
        started: Option<Instant>,
    ) -> Self {
        Self { plan, cost, is_shadow, started, elapsed: None, waits_since: None }
    }

    /// Joins the queue after a refusal, if the rule has one and there is a place. Returns what to wait
    /// for.
    pub(crate) fn wait<'k>(
        &mut self,
        rule: &Rule,
        result: &CheckResult,
        key: impl FnOnce() -> Option<Key<'k>>,
    ) -> Option<PendingAnswer> {
        let wait = rule.wait.as_ref()?;
        let Ok((decision, _)) = result else {
            return None;
        };
        let is_final = decision.is_admitted()
            || decision.source() == Source::Failure
            || decision.retry_after().is_none_or(|retry| retry > wait.within());
        if is_final || self.is_shadow || self.waits_since.is_some() {
            return None;
        }
        let limiter = self.plan.waiting_limiter()?;
        let key = key()?;
        let place = wait.enter(&rule.name, &key)?;
        self.elapsed = self.started.map(|started| started.elapsed());
        self.waits_since = Some(Instant::now());
        Some(PendingAnswer::Wait(limiter.acquire(&key, self.cost, Some(wait.within())), place))
    }

    /// Returns what follows from the limiter's result, and reports it. An admission has no decision if
    /// the store failed. The wait of a refusal is the longest of this rule and the `later` ones.
    pub(crate) fn conclude(
        self,
        config: &Config,
        rule: &Rule,
        later: &[Rule],
        decision: Result<Decision, Error>,
        head: Head<'_>,
    ) -> Result<Option<PolicyDecision>, Refused> {
        let Self { plan, cost, is_shadow, started, elapsed, waits_since } = self;
        let elapsed = elapsed.or_else(|| started.map(|started| started.elapsed()));
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                let (outcome, refusal) = match (rule.failed(&plan, &error), is_shadow) {
                    (OnError::Forward, _) | (_, true) => (Outcome::ErrorAllowed, None),
                    (OnError::Deny, false) => {
                        (Outcome::ErrorDenied, Some(Refusal::unavailable(head, &plan)))
                    }
                    (OnError::Reject, false) => {
                        (Outcome::Rejected, Some(Refusal::misconfigured(head, &plan)))
                    }
                };
                config.report(rule, &plan, outcome, EventDetails::error(&error, elapsed), head);
                return match refusal {
                    None => Ok(None),
                    Some(refusal) => Err(Refused::new(respond(config, rule, &refusal), None)),
                };
            }
        };
        if is_of_store(&decision) {
            rule.store_decided(&plan);
        }
        let waited = waits_since.map(|since| since.elapsed());
        let outcome = outcome_of(&decision, is_shadow, waited.is_some());
        config.report(rule, &plan, outcome, EventDetails::decision(&decision, elapsed), head);
        let disclosure = rule.disclosure;
        let decided = PolicyDecision { plan, cost, decision, is_shadow, waited, disclosure };
        match outcome {
            Outcome::Denied | Outcome::ErrorDenied => {
                Err(refuse(config, rule, later, decided, head))
            }
            _ => Ok(Some(decided)),
        }
    }
}

/// Returns whether the store made a decision, now or when it granted a lease.
pub(crate) const fn is_of_store(decision: &Decision) -> bool {
    matches!(decision.source(), Source::State | Source::Lease)
}

/// Returns the response to a request that was refused.
fn refuse(
    config: &Config,
    rule: &Rule,
    later: &[Rule],
    mut decided: PolicyDecision,
    head: Head<'_>,
) -> Refused {
    log::refused(decided.policy(), &decided.decision);
    let refusal = if decided.decision.source() == Source::Failure {
        Refusal::unavailable(head, &decided.plan)
    } else {
        decided.decision = with_longest_wait(spread(decided.decision), later, head);
        Refusal::quota(head, &decided)
    };
    let mut response = respond(config, rule, &refusal);
    let decision = decided.decision;
    if config.has_decisions {
        insert(decided.into(), response.extensions_mut());
    }
    Refused::new(response, Some(decision))
}

/// Returns a refusal with up to twice its wait, at random, if a table was full: so that not all keys of a
/// flood return when a slot is free.
fn spread(refused: Decision) -> Decision {
    let Some(wait) = refused.retry_after().filter(|_| refused.source() == Source::FullTable) else {
        return refused;
    };
    let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let more = wait.saturating_mul(random.into()) / 255;
    Decision::refused(refused.usage(), Some(wait.saturating_add(more)))
        .with_source(Source::FullTable)
}

/// Returns a refusal whose wait is the longest of its own and those of the later rules, as far as these
/// know theirs without a call to a store and clients may know it. The wait is `None` if one of them never
/// admits the request.
///
/// All header fields report this wait, so that none gives an earlier time than `Retry-After`.
fn with_longest_wait(refused: Decision, later: &[Rule], head: Head<'_>) -> Decision {
    let public = later.iter().filter(|rule| rule.disclosure != Disclosure::None);
    let previews = public.filter_map(|rule| rule.preview(head));
    // An admission has a wait of zero.
    let waits = previews.map(|decision| decision.retry_after());
    let longest = waits.fold(refused.retry_after(), |longest, wait| Some(longest?.max(wait?)));
    Decision::refused(refused.usage(), longest).with_source(refused.source())
}

fn outcome_of(decision: &Decision, is_shadow: bool, was_delayed: bool) -> Outcome {
    match (decision.is_admitted(), decision.source()) {
        (true, Source::Failure) => Outcome::ErrorAllowed,
        (true, _) if was_delayed => Outcome::Delayed,
        (true, _) => Outcome::Allowed,
        (false, Source::Failure) if is_shadow => Outcome::ErrorAllowed,
        (false, Source::Failure) => Outcome::ErrorDenied,
        (false, _) if is_shadow => Outcome::ShadowDenied,
        (false, _) => Outcome::Denied,
    }
}

impl PendingAnswer {
    /// Returns whether it waits for permits, and not for a decision.
    pub(crate) const fn is_wait(&self) -> bool {
        matches!(self, Self::Wait(..))
    }

    /// Returns what the limiter returned, if it did so at once.
    pub(crate) fn take_ready(&mut self) -> Option<CheckResult> {
        Some(match self {
            Self::Check(answer) => answer.take_ready()?.map(|decision| (decision, None)),
            Self::Reserve(answer) | Self::Wait(answer, _) => answer.take_ready()?.map(with_receipt),
        })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CheckResult> {
        Poll::Ready(match self {
            Self::Check(answer) => {
                ready!(Pin::new(answer).poll(cx)).map(|decision| (decision, None))
            }
            Self::Reserve(answer) | Self::Wait(answer, _) => {
                ready!(Pin::new(answer).poll(cx)).map(with_receipt)
            }
        })
    }
}

fn with_receipt(reservation: Reservation) -> (Decision, Option<Receipt>) {
    (reservation.decision(), reservation.into_receipt())
}
