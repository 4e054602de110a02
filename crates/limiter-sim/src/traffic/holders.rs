//! Callers that hold permits of requests in flight.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use futures::future::{Either, select};
use limiter_core::{InFlightPermit, Source};

use super::member::Member;
use crate::{
    auditor::Work,
    fault::Fault,
    in_flight::{InFlight, Limiter},
    log::Event,
    random::Random,
    vocabulary::{KEYS, Micros, Subject, subject},
};

/// For how long work goes on in a wrong world after its permit was given back, at most.
const EARLY: Micros = 50_000;

/// One of so many operations of a caller is a reset.
const RESET_EVERY: u64 = 50;

/// A caller that enters keys and holds permits.
pub(crate) struct Holder {
    pub(crate) member: Arc<Member>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) random: Random,
}

/// A request that has entered. It ends when this is dropped.
pub(crate) struct AtWork {
    member: Arc<Member>,
    in_flight: Arc<InFlight>,
    work: (u64, Work),
    permit: Option<InFlightPermit>,
    is_lost: bool,
}

impl Holder {
    /// Enters and holds permits until the traffic is over.
    pub(crate) async fn run(mut self) {
        while !self.member.is_over() {
            let quiet = self.member.fleet.quiet_for(self.member.now());
            let pause = self.random.below(self.member.fleet.longest_pause);
            self.member.sleep(quiet + pause).await;
            if self.member.is_over() {
                break;
            }
            let limiter = self.random.below(self.in_flight.limiters.len() as u64);
            let limiter = usize::try_from(limiter).unwrap_or(0);
            let key = usize::try_from(self.random.below(KEYS.len() as u64)).unwrap_or(0);
            if self.in_flight.plan.resets() && self.random.below(RESET_EVERY) == 0 {
                self.reset(limiter, key).await;
                continue;
            }
            self.request(limiter, key).await;
        }
    }

    /// Resets a key, whether or not the answer arrives.
    async fn reset(&self, limiter: usize, key: usize) {
        let subject = subject(limiter, key);
        if let Some(limiter) = self.in_flight.limiters.get(limiter) {
            drop(limiter.inner.reset(subject.key()).await);
        }
    }

    async fn request(&mut self, limiter: usize, key: usize) {
        let plan = Arc::clone(&self.in_flight.plan);
        let Some(kind) = plan.limiters.get(limiter).copied() else { return };
        let limit = kind.limit_of_call(&mut self.random);
        let hold = kind.hold(&mut self.random, plan.long);
        // Most leave while the request is under way.
        let patience = self.random.below(2_000);
        let leaves = self.member.happens(Fault::CallerLeaves);
        let of = (self.member.process, subject(limiter, key));
        let entered =
            enter(&self.member, &self.in_flight, of.1, limit, Some(patience).filter(|_| leaves));
        if let Some(work) = entered.await {
            self.work(work, hold).await;
        }
    }

    /// Works for a time. Strict work ends when its permit is lost.
    async fn work(&mut self, mut work: AtWork, hold: Micros) {
        let plan = &self.in_flight.plan;
        let early = if plan.leaves_early() { self.random.below(EARLY).min(hold) } else { 0 };
        let (is_strict, ignores) = (self.in_flight.is_strict, plan.ignores_deadlines());
        let mut ends = Box::pin(self.member.sleep(hold - early));
        let Some(lost) = work.permit.as_ref().map(InFlightPermit::lost) else {
            return ends.await;
        };
        if let Either::Right(_) = select(Pin::new(&mut ends), pin!(lost)).await {
            work.is_lost(!ignores);
            if is_strict && !ignores {
                return;
            }
            ends.await;
        }
        if early > 0 {
            work.looks_at_permit();
            work.permit = None;
            self.member.sleep(early).await;
        }
    }
}

/// Enters a key under a limit, unless the caller leaves before the answer. Returns the work if the store counts its permit.
pub(crate) async fn enter(
    member: &Arc<Member>,
    in_flight: &Arc<InFlight>,
    subject: Subject,
    limit: u32,
    patience: Option<Micros>,
) -> Option<AtWork> {
    let (process, limiter) = (member.process, subject.limiter());
    let of = (process, subject);
    let asked = member.now();
    member.with_records(|records, moment| records.enters(moment, of, limit));
    let entering = in_flight.limiters.get(limiter)?.inner.enter_under(subject.key(), limit);
    let entry = match patience {
        Some(patience) => member.wait(entering, patience).await,
        None => Some(entering.await),
    };
    let entry = match entry {
        Some(Ok(entry)) => entry,
        Some(Err(error)) => {
            let event = Event::Failed { kind: error.kind() };
            member.with_records(|records, moment| records.enters_not(moment, of, event));
            return None;
        }
        None => {
            member.with_records(|records, moment| records.enters_not(moment, of, Event::Left));
            return None;
        }
    };
    let source = entry.occupancy().source();
    if !entry.is_admitted() {
        member.with_records(|records, moment| records.is_kept_out(moment, of, limiter, source));
        return None;
    }
    let work = Work { process, subject, limiter, limit, asked, is_lost: false };
    if source == Source::Local {
        let share = in_flight.share_of(limit);
        let number = member
            .with_records(|records, moment| records.has_entered_by_share(moment, work, share));
        let permit = entry.into_permit().filter(|_| !in_flight.plan.forgets_shares());
        let (member, in_flight) = (Arc::clone(member), Arc::clone(in_flight));
        return Some(AtWork { member, in_flight, work: (number, work), permit, is_lost: false });
    }
    let number = member.with_records(|records, moment| records.has_entered(moment, work, source));
    let permit = entry.into_permit();
    if source != Source::State {
        // The store does not count it.
        return None;
    }
    member.network.checks_in_flight();
    let (member, in_flight) = (Arc::clone(member), Arc::clone(in_flight));
    Some(AtWork { member, in_flight, work: (number?, work), permit, is_lost: false })
}

impl AtWork {
    /// Notes that the permit is lost, and whether the work counts no more.
    fn is_lost(&mut self, counts_no_more: bool) {
        self.is_lost = true;
        self.member.with_records(|records, moment| {
            records.permit_is_lost(moment, self.work, counts_no_more);
        });
    }

    fn limiter(&self) -> Option<&Limiter> {
        self.in_flight.limiters.get(self.work.1.limiter)
    }

    /// Notes whether the permit was lost that the holder is about to drop.
    fn looks_at_permit(&mut self) {
        let lost = |it: &Self| it.limiter().map_or(0, Limiter::lost);
        let before = lost(self);
        if self.is_lost || !self.permit.as_ref().is_some_and(InFlightPermit::is_lost) {
            return;
        }
        let was_lost = before == lost(self);
        self.is_lost(true);
        if was_lost {
            // A process that goes on may end work before it sees that its permit is lost.
            self.member.with_records(|records, moment| {
                records.was_not_woken(moment, self.work.1);
            });
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.looks_at_permit();
        self.member.with_records(|records, moment| records.work_ends(moment, self.work));
    }
}
