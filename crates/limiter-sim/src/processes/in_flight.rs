//! The limiters of requests in flight of processes.

use std::sync::Arc;

use limiter_core::Error;

use super::{DRAINS_IN, Processes};
use crate::{
    clock::ProcessClock,
    in_flight::InFlight,
    network::SimClient,
    traffic::Member,
    vocabulary::{KEYS, Subject, subject},
};

impl Processes {
    /// Returns the limiters of requests in flight of a process that is started, if it has some.
    pub(super) fn start_in_flight(
        &mut self,
        client: &SimClient,
        clock: &ProcessClock,
    ) -> Result<Option<Arc<InFlight>>, Error> {
        let Some(plan) = &self.fleet.in_flight else { return Ok(None) };
        let deadline = self.fleet.trips.deadline;
        let in_flight = InFlight::new(plan, deadline, (client, clock), &mut self.random)?;
        for (index, (limiter, kind)) in in_flight.limiters.iter().zip(&plan.limiters).enumerate() {
            for (key, name) in KEYS.iter().enumerate() {
                let stored = limiter.inner.stored_key(*name)?;
                let node = self.network.node_of(&stored);
                self.network.with_records(|records, _| {
                    let subject = subject(index, key);
                    records.auditor.in_flight.add(subject, stored, node, kind.expiry);
                });
            }
        }
        Ok(Some(Arc::new(in_flight)))
    }

    /// Returns how what callers saw of requests in flight disagrees with the counters and events of their process.
    pub(super) fn in_flight_disagrees(&self, member: &Member, has_ended: bool) -> Option<String> {
        let in_flight = member.in_flight.as_ref()?;
        in_flight.limiters.iter().enumerate().find_map(|(index, limiter)| {
            let counters = limiter.inner.counters();
            let tally = self
                .network
                .with_records(|records, _| *records.auditor.in_flight.tally(member.process, index));
            let held = if has_ended { limiter.inner.held() } else { 0 };
            let figures = [
                ("admitted", counters.admitted, tally.admitted),
                ("refused", counters.refused, tally.refused),
                ("lost by counters", counters.permits_lost, tally.lost),
                ("lost by events", limiter.lost_by_events(), tally.lost),
                ("held in the end", held, 0),
            ];
            let (what, counted, seen) = figures.into_iter().find(|(_, it, seen)| it != seen)?;
            let (process, name) = (member.process, limiter.inner.name());
            Some(format!("{name} in {process}: {what}: {counted}, but callers saw {seen}"))
        })
    }

    /// Lets all limiters of requests in flight wait until nothing is under way.
    pub(super) fn drain_in_flight(&self) {
        for member in self.members() {
            for limiter in member.in_flight.iter().flat_map(|it| &it.limiters).map(|it| &it.inner) {
                let (limiter, network) = (limiter.clone(), self.network.clone());
                self.executor.spawn(member.process, async move {
                    if let Err(error) = limiter.drain(DRAINS_IN).await {
                        network.with_records(|records, moment| {
                            records.violated(moment, Subject::ALL, &error.to_string());
                        });
                    }
                });
            }
        }
    }
}
