//! The operations of callers, and what they note of them.

use std::time::Duration;

use limiter_core::{Cost, Decision, Demand, ErrorKind, LimiterFuture, Reservation, decide};
use limiter_redis::RedisLimiter;

use super::{Caller, Kept};
use crate::{
    auditor::AdmissionId,
    fault::Fault,
    fleet::{KEYS, micros, subject},
    network::SimClient,
    records::{End, Operation},
};

impl Caller {
    pub(super) async fn check(&mut self, limiter: usize, key: usize) {
        let cost = self.cost();
        let check = move |it: &RedisLimiter<SimClient>, key| it.check_n(key, cost);
        let asked = self.ask_one((limiter, key), ("check", cost.get()), check).await;
        if let Some((operation, decision)) = asked {
            self.note_decision(&operation, decision, cost.get(), Duration::ZERO);
            self.answered(&operation);
        }
    }

    pub(super) async fn reserve(&mut self, limiter: usize, key: usize) {
        let (cost, within) = (self.cost(), Duration::from_micros(self.random.below(1_500_000)));
        let reserve = move |it: &RedisLimiter<SimClient>, key| it.reserve(key, cost, within);
        let asked = self.ask_one((limiter, key), ("reserve", cost.get()), reserve).await;
        self.note_reservation((limiter, key), asked);
    }

    pub(super) async fn take_up_to(&mut self, limiter: usize, key: usize) {
        let most = if self.member.leases(limiter) { 100 } else { 10 };
        let most = Cost::new(self.random.between(1, most)).unwrap_or(Cost::ONE);
        let take = move |it: &RedisLimiter<SimClient>, key| it.take_up_to(key, most);
        let asked = self.ask_one((limiter, key), ("take up to", most.get()), take).await;
        self.note_reservation((limiter, key), asked);
    }

    pub(super) async fn acquire(&mut self, limiter: usize, key: usize) {
        let (cost, within) = (self.cost(), Duration::from_micros(self.random.below(1_500_000)));
        let acquire = move |it: &RedisLimiter<SimClient>, key| it.acquire(key, cost, Some(within));
        let asked = self.ask_one((limiter, key), ("acquire", cost.get()), acquire).await;
        self.note_reservation((limiter, key), asked);
    }

    pub(super) async fn peek(&mut self, limiter: usize, key: usize) {
        let peek = |it: &RedisLimiter<SimClient>, key| it.peek(key);
        if let Some((operation, _)) = self.ask_one((limiter, key), ("peek", 0), peek).await {
            // A peek that falls back is counted, and does not show it.
            self.is_uncertain(limiter);
            self.answered(&operation);
        }
    }

    pub(super) async fn reset(&mut self, limiter: usize, key: usize) {
        let reset = |it: &RedisLimiter<SimClient>, key| it.reset(key);
        if let Some((operation, ())) = self.ask_one((limiter, key), ("reset", 0), reset).await {
            self.answered(&operation);
        }
    }

    /// Decides on a key of two limiters together.
    pub(super) async fn decide(&mut self, key: usize) {
        let first = self.member.pick_limiter(&mut self.random);
        let second = self.member.pick_limiter(&mut self.random);
        let name = KEYS.get(key).copied().unwrap_or_default();
        let cost = self.cost();
        let parts: Vec<usize> = if first == second { vec![first] } else { vec![first, second] };
        let asks = parts.iter().map(|limiter| self.asks((*limiter, key), ("decide", cost.get())));
        let operations: Vec<Operation> = asks.collect();
        let answer = {
            let limiters = parts.iter().filter_map(|limiter| self.member.limiter(*limiter));
            let demands: Vec<_> = limiters.map(|it| Demand::new(it, name, cost)).collect();
            decide(&demands)
        };
        let answer = self.wait(answer).await;
        let joint = match answer {
            Some(Ok(joint)) => joint,
            Some(Err(error)) => {
                let end = End::Failed(&error);
                operations.iter().for_each(|operation| self.end(operation, end));
                return;
            }
            None => {
                operations.iter().for_each(|operation| self.end(operation, End::Left));
                return;
            }
        };
        let mut admissions = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            let decision = joint.decision(index).filter(|_| joint.is_admitted());
            admissions.push(decision.and_then(|decision| {
                self.note_decision(operation, decision, cost.get(), Duration::ZERO)
            }));
            // A part of a list that is refused may have been charged and refunded, or was refused itself.
            if decision.is_none() {
                self.is_uncertain(parts.get(index).copied().unwrap_or(0));
            }
            self.answered(operation);
        }
        for (index, receipt) in joint.into_receipts() {
            let (Some(&limiter), Some(&admission)) = (parts.get(index), admissions.get(index))
            else {
                continue;
            };
            self.keep(Kept { limiter, key, receipt, admission });
        }
    }

    /// Refunds one of the receipts, or a part of it.
    pub(super) async fn refund(&mut self) {
        let Some(Kept { limiter, key, receipt, admission }) = self.take() else { return };
        let kept = if self.random.below(3) == 0 { self.random.below(receipt.permits()) } else { 0 };
        let receipt = receipt.keep(kept);
        let permits = receipt.permits();
        let operation = self.asks((limiter, key), ("refund", permits));
        let less = admission.map(|id| {
            let refunds = |records: &mut crate::records::Records, moment| {
                records.refunds(moment, &operation, id, permits)
            };
            (id, self.member.with_records(refunds))
        });
        let Some(it) = self.member.limiter(limiter) else { return };
        let answer = it.refund(receipt);
        let answer = self.wait(answer).await;
        let (returned, end) = match &answer {
            Some(Ok(returned)) => (Some(*returned), End::Answered),
            Some(Err(error)) => {
                let is_uncharged = error.kind() == ErrorKind::Unavailable;
                (is_uncharged.then_some(0), End::Failed(error))
            }
            None => (None, End::Left),
        };
        if let Some(less) = less {
            self.member.with_records(|records, moment| {
                records.refunded(moment, &operation, less, returned);
            });
        }
        self.end(&operation, end);
    }

    fn cost(&mut self) -> Cost {
        let cost = if self.random.below(4) == 0 { self.random.between(1, 5) } else { 1 };
        Cost::new(cost).unwrap_or(Cost::ONE)
    }

    /// Makes an operation on one key, and returns the answer unless there is none.
    async fn ask_one<T>(
        &mut self,
        (limiter, key): (usize, usize),
        what: (&'static str, u64),
        ask: impl FnOnce(&RedisLimiter<SimClient>, &'static str) -> LimiterFuture<T>,
    ) -> Option<(Operation, T)> {
        let operation = self.asks((limiter, key), what);
        let name = KEYS.get(key).copied().unwrap_or_default();
        let answer = ask(self.member.limiter(limiter)?, name);
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
    async fn wait<T>(
        &mut self,
        answer: LimiterFuture<T>,
    ) -> Option<Result<T, limiter_core::Error>> {
        if self.member.happens(Fault::CallerLeaves) {
            let patience = self.random.below(20_000);
            return self.member.wait(answer, patience).await;
        }
        Some(answer.await)
    }

    fn asks(&self, (limiter, key): (usize, usize), what: (&'static str, u64)) -> Operation {
        let process = self.member.process;
        let is_direct = what.0 != "decide" && !self.member.leases(limiter);
        let what = (what.0, what.1, is_direct);
        self.member.with_records(|records, moment| {
            records.asks(moment, (process, limiter), subject(limiter, key), what)
        })
    }

    fn note_decision(
        &self,
        operation: &Operation,
        decision: Decision,
        permits: u64,
        delay: Duration,
    ) -> Option<AdmissionId> {
        let permits = decision.is_admitted().then_some(permits);
        let decided = (decision.source(), permits, micros(delay));
        self.member.with_records(|records, moment| records.decides(moment, operation, decided))
    }

    fn note_reservation(
        &mut self,
        (limiter, key): (usize, usize),
        asked: Option<(Operation, Reservation)>,
    ) {
        let Some((operation, reservation)) = asked else { return };
        let (permits, delay) = (reservation.permits(), reservation.delay().unwrap_or_default());
        let admission = self.note_decision(&operation, reservation.decision(), permits, delay);
        self.answered(&operation);
        if let Some(receipt) = reservation.into_receipt() {
            self.keep(Kept { limiter, key, receipt, admission });
        }
    }

    fn is_uncertain(&self, limiter: usize) {
        let process = self.member.process;
        self.member.with_records(|records, _| records.tally(process, limiter).uncertain += 1);
    }

    fn answered(&self, operation: &Operation) {
        self.end(operation, End::Answered);
    }

    fn end(&self, operation: &Operation, end: End<'_>) {
        self.member.with_records(|records, moment| records.ends(moment, operation, end));
    }
}
