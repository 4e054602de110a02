//! Requests that hold permits behind a layer, while the service works.

use std::{pin::pin, sync::Arc};

use futures::future::{Either, select};
use http::Request;
use limiter_core::Source;
use limiter_tower::in_flight::HoldGuard;

use super::member::Member;
use crate::{
    auditor::Work,
    service::{Client, IN_FLIGHT, Service},
    vocabulary::Micros,
    wrong::Wrong,
};

/// A request that is served and counted. It ends when this is dropped.
pub(super) struct Export {
    member: Arc<Member>,
    work: (u64, Work),
    guard: Option<HoldGuard>,
    is_strict: bool,
    wrong: Option<Wrong>,
}

impl Export {
    /// Notes that the layer has admitted a request. `None` if no limit on requests in flight counts it.
    pub(super) fn begins(
        member: &Arc<Member>,
        service: &Service,
        client: &Client,
        request: &Request<()>,
    ) -> Option<Self> {
        let exports = service.exports.as_ref()?;
        let mut guard = Some(exports.hold(request)?);
        let work = Work {
            process: member.process,
            subject: exports.subject(client),
            limiter: IN_FLIGHT,
            limit: exports.holding.limit,
            asked: client.ticket.asked.now,
            is_lost: false,
        };
        let number =
            member.with_records(|records, moment| records.has_entered(moment, work, Source::State));
        member.network.checks_in_flight();
        let wrong = service.plan.wrong;
        match wrong {
            Some(Wrong::KeepsPermits) => guard.take().into_iter().for_each(|it| exports.keep(it)),
            Some(Wrong::WorksAfterResponse) => guard = None,
            _ => {}
        }
        let (member, is_strict) = (Arc::clone(member), exports.holding.is_strict);
        Some(Self { member, work: (number?, work), guard, is_strict, wrong })
    }

    /// Works for a time. The layer ends strict work when its permit is lost, and other work is known to be lost from then on.
    pub(super) async fn works(self, time: Micros) {
        if self.wrong == Some(Wrong::WorksAfterResponse) {
            let (process, member) = (self.member.process, Arc::clone(&self.member));
            member.network.spawn(process, async move { self.member.sleep(time).await });
            return;
        }
        let mut ends = Box::pin(self.member.sleep(time));
        let Some(guard) = self.guard.as_ref().filter(|_| !self.is_strict) else {
            return ends.await;
        };
        if let Either::Right(_) = select(&mut ends, pin!(guard.lost())).await {
            self.member.with_records(|records, moment| {
                records.permit_is_lost(moment, self.work, true);
            });
            ends.await;
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.member.with_records(|records, moment| records.work_ends(moment, self.work));
    }
}
