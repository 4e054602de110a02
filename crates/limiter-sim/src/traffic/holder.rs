//! A caller that holds permits of requests in flight.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use futures::future::{Either, select};
use limiter_core::{InFlightPermit, Source};

use crate::{
    auditor::Work,
    fault::Fault,
    processes::Member,
    random::Random,
    record::Event,
    vocabulary::{KEYS, Micros, Subject},
};

/// A caller that enters keys and holds permits.
pub(super) struct Holder {
    pub(super) member: Arc<Member>,
    pub(super) random: Random,
}

/// A request that has entered. It ends when this is dropped.
pub(crate) struct AtWork {
    member: Arc<Member>,
    subject: Subject,
    /// Its number if the store counts it: not if it entered by the process's share.
    pub(crate) number: Option<u64>,
    permit: Option<InFlightPermit>,
    is_lost: bool,
}

impl Holder {
    /// Enters and holds permits until the traffic is over.
    pub(super) async fn run(mut self) {
        let fleet = Arc::clone(&self.member.fleet);
        while !self.member.is_over() {
            let quiet = fleet.quiet_for(self.member.now());
            let pause = self.random.below(fleet.longest_pause + 5_000);
            self.member.sleep(quiet + pause).await;
            let number = self.random.index(fleet.holding.len());
            let Some(holding) = fleet.holding.get(number) else { return };
            let key = self.random.index(KEYS.len());
            let subject = Subject { limiter: fleet.limiters() + number, key };
            let limiter = self.member.in_flight(subject);
            if self.member.is_over() {
                break;
            }
            if let Some(limiter) = limiter.filter(|_| self.member.network.happens(Fault::KeyReset))
            {
                drop(limiter.inner.reset(subject.name()).await);
                continue;
            }
            let limit = holding.limit_of_call(&mut self.random);
            let hold = holding.hold(&mut self.random);
            // Most leave while the request is under way.
            let patience = self.random.below(2_000);
            let leaves = self.member.network.happens(Fault::CallerLeaves);
            let patience = Some(patience).filter(|_| leaves);
            if let Some(work) = enter(&self.member, subject, limit, patience).await {
                self.work(work, hold).await;
            }
        }
    }

    /// Works for a time. Strict work ends when its permit is lost.
    async fn work(&self, mut work: AtWork, hold: Micros) {
        let mut ends = Box::pin(self.member.sleep(hold));
        let Some(lost) = work.permit.as_ref().map(InFlightPermit::lost) else {
            return ends.await;
        };
        if let Either::Right(_) = select(Pin::new(&mut ends), pin!(lost)).await {
            work.is_lost();
            if !self.member.is_strict {
                ends.await;
            }
        }
    }
}

/// Enters a key under a limit, unless the caller leaves before the answer.
pub(crate) async fn enter(
    member: &Arc<Member>,
    subject: Subject,
    limit: u32,
    patience: Option<Micros>,
) -> Option<AtWork> {
    let note = |event| {
        member.with_record(|record, moment| {
            record.note(moment, Some(member.process), Some(subject), event);
        });
    };
    note(Event::Asks { operation: "enter", permits: limit.into(), tier: 0 });
    let asked = member.now();
    let entering = member.in_flight(subject)?.inner.enter_under(subject.name(), limit);
    let entry = match patience {
        Some(patience) => member.wait(entering, patience).await,
        None => Some(entering.await),
    };
    let entry = match entry {
        Some(Ok(entry)) => entry,
        Some(Err(error)) => {
            note(Event::Fails { kind: error.kind() });
            return None;
        }
        None => {
            note(Event::Leaves);
            return None;
        }
    };
    member.with_record(|record, _| record.decisions += 1);
    let source = entry.occupancy().source();
    if !entry.is_admitted() {
        note(Event::Refused { source });
        return None;
    }
    note(Event::Admitted { permits: 1, source, delay: 0 });
    let work = Work { process: member.process, subject, limit, asked };
    let number = (source == Source::State).then(|| {
        member.with_record(|record, moment| {
            let number = record.auditor.in_flight.begins(work);
            record.check_in_flight(moment);
            number
        })
    });
    let (member, permit) = (Arc::clone(member), entry.into_permit());
    Some(AtWork { member, subject, number, permit, is_lost: false })
}

impl AtWork {
    /// Returns whether its permit is lost.
    pub(crate) fn permit_is_lost(&self) -> bool {
        self.permit.as_ref().is_some_and(InFlightPermit::is_lost)
    }

    /// Notes that the holder knows that its permit is lost, so that its work counts no more.
    fn is_lost(&mut self) {
        self.is_lost = true;
        let (process, subject) = (self.member.process, self.subject);
        self.member.with_record(|record, moment| {
            record.note(moment, Some(process), Some(subject), Event::Lost);
            let in_flight = &mut record.auditor.in_flight;
            *in_flight.lost.entry((process, subject.limiter)).or_default() += 1;
            self.number.into_iter().for_each(|number| in_flight.ends(number));
        });
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // A process that goes on may end work before it is woken because the permit is lost.
        if !self.is_lost && self.permit_is_lost() {
            self.is_lost();
        }
        self.member.with_record(|record, moment| {
            record.note(moment, Some(self.member.process), Some(self.subject), Event::Ends);
            self.number.into_iter().for_each(|number| record.auditor.in_flight.ends(number));
        });
    }
}
