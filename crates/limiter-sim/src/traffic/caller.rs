//! A caller: how it asks a limiter, and what it notes of the answer.

use std::{sync::Arc, time::Duration};

use limiter_core::{
    Cost, Decision, Error, Key, LimiterFuture, Receipt, Reservation, WaitingLimiter,
};

use super::member::{Member, Target};
use crate::{
    auditor::Admission,
    fault::Fault,
    fleet::micros,
    random::Random,
    records::{Answer, End, Operation, Question},
    vocabulary::Moment,
};

/// A caller, which makes one operation after the other.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) member: Arc<Member>,
    pub(crate) random: Random,
    /// The receipts of what it may refund.
    pub(crate) receipts: Vec<Kept>,
}

/// A receipt, and the admission as the auditor knows it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) target: Target,
    pub(super) receipt: Receipt,
    pub(super) admission: Option<Admission>,
}

/// The most receipts that a caller keeps.
const MAX_RECEIPTS: usize = 8;

impl Caller {
    pub(super) fn cost(&mut self) -> Cost {
        let cost = if self.random.below(4) == 0 { self.random.between(1, 5) } else { 1 };
        Cost::new(cost).unwrap_or(Cost::ONE)
    }

    /// Makes an operation on one key, and returns its answer, `None` if it failed or the caller has left.
    pub(super) async fn ask_one<T>(
        &mut self,
        target: Target,
        what: (&'static str, u64),
        ask: impl FnOnce(&dyn WaitingLimiter, &Key<'_>) -> LimiterFuture<T>,
    ) -> Option<(Operation, T)> {
        let handle = self.member.handle(target)?;
        let operation = self.asks(target, what);
        let answer = ask(&*handle, &target.key());
        let end = match self.wait(answer).await {
            Some(Ok(answer)) => return Some((operation, answer)),
            Some(Err(error)) => {
                self.end(&operation, End::Failed(&error));
                return None;
            }
            None => End::Left,
        };
        self.end(&operation, end);
        None
    }

    /// Waits for an answer, or leaves.
    pub(super) async fn wait<T>(&mut self, answer: LimiterFuture<T>) -> Option<Result<T, Error>> {
        if self.member.happens(Fault::CallerLeaves) {
            let patience = self.random.below(20_000);
            return self.member.wait(answer, patience).await;
        }
        Some(answer.await)
    }

    pub(super) fn asks(
        &self,
        target: Target,
        (operation, permits): (&'static str, u64),
    ) -> Operation {
        let Target { limiter, tier, .. } = target;
        let process = self.member.process;
        let is_direct = operation != "decide" && !self.member.leases(limiter);
        let question = Question { operation, permits, tier, is_direct };
        self.member.with_records(|records, moment| {
            records.asks(moment, process, target.subject(), question)
        })
    }

    /// Notes the answer to a check.
    pub(super) fn note_check(&self, operation: &Operation, decision: Decision, permits: u64) {
        self.note_decision(operation, decision, permits, (Duration::ZERO, None));
        self.answered(operation);
    }

    /// Notes a decision on permits that count after a delay. If they were charged afterwards, their request began at a
    /// moment before.
    pub(super) fn note_decision(
        &self,
        operation: &Operation,
        decision: Decision,
        permits: u64,
        (delay, of_request): (Duration, Option<Moment>),
    ) -> Option<Admission> {
        let permits = decision.is_admitted().then_some(permits);
        let (source, delay, wait) =
            (decision.source(), micros(delay), decision.retry_after().map(micros));
        let answer = Answer { source, permits, delay, wait, of_request };
        self.member.with_records(|records, moment| records.decides(moment, operation, answer))
    }

    pub(super) fn note_reservation(
        &mut self,
        target: Target,
        asked: Option<(Operation, Reservation)>,
        of_request: Option<Moment>,
    ) {
        let Some((operation, reservation)) = asked else { return };
        let (permits, delay) = (reservation.permits(), reservation.delay().unwrap_or_default());
        let decision = reservation.decision();
        let admission = self.note_decision(&operation, decision, permits, (delay, of_request));
        self.answered(&operation);
        if let Some(receipt) = reservation.into_receipt() {
            self.keep(Kept { target, receipt, admission });
        }
    }

    pub(super) fn answered(&self, operation: &Operation) {
        self.end(operation, End::Answered);
    }

    pub(super) fn end(&self, operation: &Operation, end: End<'_>) {
        self.member.with_records(|records, moment| records.ends(moment, operation, end));
    }

    /// Keeps a receipt, in the place of another one if there are many.
    pub(super) fn keep(&mut self, kept: Kept) {
        if self.receipts.len() < MAX_RECEIPTS {
            self.receipts.push(kept);
        } else if let Some(place) = self.receipts.get_mut(0) {
            *place = kept;
        }
    }

    /// Takes one of the receipts.
    pub(super) fn take(&mut self) -> Option<Kept> {
        let index = self.random.below(self.receipts.len() as u64);
        let index = usize::try_from(index).ok().filter(|index| *index < self.receipts.len())?;
        Some(self.receipts.swap_remove(index))
    }
}
