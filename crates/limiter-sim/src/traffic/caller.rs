//! A caller of limits on rates.

use std::{sync::Arc, time::Duration};

use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, LimiterFuture, Receipt, Reservation, Source,
    WaitingLimiter,
};

use crate::{
    auditor::Admission,
    fault::Fault,
    processes::{Member, Target},
    random::Random,
    record::{End, Operation, Question, Record},
    vocabulary::{Micros, micros},
};

/// A caller, which makes one operation after the other.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(super) member: Arc<Member>,
    pub(crate) random: Random,
    /// What it may refund.
    receipts: Vec<Kept>,
}

/// A receipt, and the admission as the auditor knows it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) target: Target,
    pub(super) receipt: Receipt,
    pub(super) admission: Option<Admission>,
}

/// The most receipts that a caller keeps.
const MAX_RECEIPTS: usize = 8;

/// The most permits of work that is charged afterwards.
const MOST_WORK: u64 = 20;

impl Caller {
    pub(crate) fn new(member: &Arc<Member>, random: Random) -> Self {
        Self { member: Arc::clone(member), random, receipts: Vec::new() }
    }

    /// Asks until the traffic is over.
    pub(super) async fn run(mut self) {
        while !self.member.is_over() {
            let quiet = self.member.fleet.quiet_for(self.member.now());
            let pause = self.random.below(self.member.fleet.longest_pause);
            self.member.sleep(quiet + pause).await;
            let limiter = self.random.index(self.member.limiters.rates.len());
            // Leases are for keys that are checked often.
            let leases = self.member.fleet.leases(limiter);
            for _ in 0..if leases { self.random.between(1, 16) } else { 1 } {
                self.operate(limiter).await;
            }
            if !self.receipts.is_empty() && self.member.network.happens(Fault::LateRefund) {
                let time = self.random.below(2_000_000);
                self.member.sleep(time).await;
                self.refund().await;
            }
        }
    }

    /// Makes one operation.
    async fn operate(&mut self, limiter: usize) {
        let target = self.member.pick(limiter, &mut self.random);
        if self.member.network.happens(Fault::KeyReset) {
            return self.ask_and_end(target, "reset", |it, key| it.reset(key)).await;
        }
        let (cost, within) = (self.cost(), Duration::from_micros(self.random.below(1_500_000)));
        match self.random.below(100) {
            0..67 => drop(self.check(target, cost).await),
            67..74 => {
                self.reserve(target, ("reserve", cost), |it, key| it.reserve(key, cost, within))
                    .await;
            }
            74..79 => {
                let most = if self.member.fleet.leases(limiter) { 100 } else { 10 };
                let most = Cost::new(self.random.between(1, most)).unwrap_or(Cost::ONE);
                self.reserve(target, ("take up to", most), |it, key| it.take_up_to(key, most))
                    .await;
            }
            79..83 => {
                let within = Some(within);
                self.reserve(target, ("acquire", cost), |it, key| it.acquire(key, cost, within))
                    .await;
            }
            83..86 => self.ask_and_end(target, "peek", |it, key| it.peek(key)).await,
            86..90 if self.member.fleet.charges => self.work(target).await,
            86..90 => drop(self.check(target, cost).await),
            90..94 => self.decide(target, cost).await,
            _ => self.refund().await,
        }
    }

    fn cost(&mut self) -> Cost {
        let cost = if self.random.below(4) == 0 { self.random.between(1, 5) } else { 1 };
        Cost::new(cost).unwrap_or(Cost::ONE)
    }

    /// Checks a key, and returns the decision unless the check failed or the caller has left.
    pub(crate) async fn check(&mut self, target: Target, cost: Cost) -> Option<Decision> {
        let asked = self.ask(target, ("check", cost.get()), |it, key| it.check_n(key, cost));
        let (operation, decision) = asked.await?;
        self.decided(&operation, decision, cost.get(), 0);
        Some(decision)
    }

    /// Checks one permit, works, and charges the others.
    async fn work(&mut self, target: Target) {
        if self.check(target, Cost::ONE).await.is_some_and(|it| it.is_admitted()) {
            let work = self.random.below(30_000);
            self.member.sleep(work).await;
            let cost = Cost::new(self.random.between(1, MOST_WORK)).unwrap_or(Cost::ONE);
            self.reserve(target, ("charge", cost), |it, key| it.charge(key, cost)).await;
        }
    }

    /// Makes an operation that reserves permits, and keeps its receipt.
    async fn reserve(
        &mut self,
        target: Target,
        (operation, cost): (&'static str, Cost),
        ask: impl FnOnce(&dyn WaitingLimiter, &Key<'_>) -> LimiterFuture<Reservation>,
    ) {
        let asked = self.ask(target, (operation, cost.get()), ask).await;
        let Some((operation, reservation)) = asked else { return };
        let (permits, delay) = (reservation.permits(), reservation.delay().map_or(0, micros));
        let admission = self.decided(&operation, reservation.decision(), permits, delay);
        if let Some(receipt) = reservation.into_receipt() {
            self.keep(Kept { target, receipt, admission });
        }
    }

    async fn ask_and_end<T>(
        &mut self,
        target: Target,
        operation: &'static str,
        ask: impl FnOnce(&dyn WaitingLimiter, &Key<'_>) -> LimiterFuture<T>,
    ) {
        if let Some((operation, _)) = self.ask(target, (operation, 0), ask).await {
            self.end(&operation, End::Answered { is_charged: false });
        }
    }

    /// Refunds one of the receipts, or a part of it.
    async fn refund(&mut self) {
        let index = self.random.index(self.receipts.len());
        if index >= self.receipts.len() {
            return;
        }
        let Kept { target, receipt, admission } = self.receipts.swap_remove(index);
        let kept = if self.random.below(3) == 0 { self.random.below(receipt.permits()) } else { 0 };
        let receipt = receipt.keep(kept);
        let permits = receipt.permits();
        let Some(handle) = self.member.handle(target) else { return };
        let operation = begin(&self.member, target, ("refund", permits));
        let less = admission.map(|it| {
            let refunds = |record: &mut Record, moment| record.auditor.refunds(it, permits, moment);
            (it, self.member.with_record(refunds))
        });
        let answer = self.wait(handle.refund(receipt)).await;
        let (returned, end) = match &answer {
            Some(Ok(returned)) => (Some(*returned), End::Answered { is_charged: false }),
            Some(Err(error)) => {
                let is_uncharged = error.kind() == ErrorKind::Unavailable;
                (is_uncharged.then_some(0), End::Failed(error))
            }
            None => (None, End::Left),
        };
        if let Some((less, returned)) = less.zip(returned) {
            self.member.with_record(|record, moment| {
                record.refunded(moment, &operation, less, returned);
            });
        }
        self.end(&operation, end);
    }

    /// Makes an operation on one key, and returns its answer, `None` if it failed or the caller has left.
    async fn ask<T>(
        &mut self,
        target: Target,
        what: (&'static str, u64),
        ask: impl FnOnce(&dyn WaitingLimiter, &Key<'_>) -> LimiterFuture<T>,
    ) -> Option<(Operation, T)> {
        let handle = self.member.handle(target)?;
        let operation = begin(&self.member, target, what);
        let answer = ask(&*handle, &target.key());
        match self.wait(answer).await {
            Some(Ok(answer)) => return Some((operation, answer)),
            Some(Err(error)) => self.end(&operation, End::Failed(&error)),
            None => self.end(&operation, End::Left),
        }
        None
    }

    /// Waits for an answer, or leaves.
    pub(super) async fn wait<T>(&mut self, answer: LimiterFuture<T>) -> Option<Result<T, Error>> {
        if self.member.network.happens(Fault::CallerLeaves) {
            let patience = self.random.below(20_000);
            return self.member.wait(answer, patience).await;
        }
        Some(answer.await)
    }

    /// Notes a decision on permits that count after a delay, and that its operation has ended.
    fn decided(
        &self,
        operation: &Operation,
        decision: Decision,
        permits: u64,
        delay: Micros,
    ) -> Option<Admission> {
        let permits = decision.is_admitted().then_some(permits);
        let is_charged = decision.source() == Source::State && permits.is_some_and(|it| it > 0);
        self.member.with_record(|record, moment| {
            let decided = (decision.source(), permits);
            let admission = record.decides(moment, operation, decided, delay);
            record.ends(moment, operation, End::Answered { is_charged });
            admission
        })
    }

    pub(super) fn end(&self, operation: &Operation, end: End<'_>) {
        self.member.with_record(|record, moment| record.ends(moment, operation, end));
    }

    /// Keeps a receipt, in the place of another one if there are many.
    pub(super) fn keep(&mut self, kept: Kept) {
        if self.receipts.len() < MAX_RECEIPTS {
            self.receipts.push(kept);
        } else if let Some(place) = self.receipts.get_mut(0) {
            *place = kept;
        }
    }
}

/// Notes that an operation begins.
pub(super) fn begin(
    member: &Member,
    target: Target,
    (operation, permits): (&'static str, u64),
) -> Operation {
    let Target { subject, tier } = target;
    let is_direct = operation != "decide" && !member.fleet.leases(subject.limiter);
    let question = Question { operation, permits, tier, is_direct };
    member.with_record(|record, moment| record.asks(moment, (member.process, subject), question))
}
