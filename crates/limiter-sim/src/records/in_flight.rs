//! What is known of requests in flight.

use limiter_core::Source;

use super::Records;
use crate::{
    auditor::{InFlightCall, Work},
    log::Event,
    vocabulary::{Moment, ProcessId, Subject},
};

impl Records {
    /// Notes that a caller asks to enter under a limit.
    pub(crate) fn enters(&mut self, moment: Moment, of: (ProcessId, Subject), limit: u32) {
        let event = Event::Asked { operation: "enter", permits: limit.into(), tier: 0 };
        self.log.add(moment.now, Some(of.0), Some(of.1), event);
    }

    /// Notes that a caller has left, or got an error.
    pub(crate) fn enters_not(&mut self, moment: Moment, of: (ProcessId, Subject), event: Event) {
        self.log.add(moment.now, Some(of.0), Some(of.1), event);
    }

    /// Notes that a request was refused.
    pub(crate) fn is_kept_out(
        &mut self,
        moment: Moment,
        of: (ProcessId, Subject),
        limiter: usize,
        source: Source,
    ) {
        self.decisions += 1;
        let is_of_store = u64::from(source == Source::State);
        self.auditor.in_flight.tally(of.0, limiter).refused += is_of_store;
        self.log.add(moment.now, Some(of.0), Some(of.1), Event::Refused { source });
    }

    /// Notes that a request has entered, and returns the number of its work if the store counts it.
    pub(crate) fn has_entered(
        &mut self,
        moment: Moment,
        work: Work,
        source: Source,
    ) -> Option<u64> {
        self.decisions += 1;
        let event = Event::Admitted { permits: 1, source, delay: 0 };
        self.log.add(moment.now, Some(work.process), Some(work.subject), event);
        if source != Source::State {
            return None;
        }
        self.auditor.in_flight.tally(work.process, work.limiter).admitted += 1;
        Some(self.auditor.in_flight.begins(work))
    }

    /// Notes that a request has entered by its process's share, and returns the number of its work.
    pub(crate) fn has_entered_by_share(&mut self, moment: Moment, work: Work, share: u32) -> u64 {
        self.decisions += 1;
        let event = Event::Admitted { permits: 1, source: Source::Local, delay: 0 };
        self.log.add(moment.now, Some(work.process), Some(work.subject), event);
        let (number, message) = self.auditor.in_flight.begins_by_share(work, share);
        if let Some(message) = message {
            self.violated(moment, work.subject, &message);
        }
        number
    }

    /// Notes that work has ended.
    pub(crate) fn work_ends(&mut self, moment: Moment, (number, work): (u64, Work)) {
        self.log.add(moment.now, Some(work.process), Some(work.subject), Event::Ended);
        self.auditor.in_flight.ends(number);
    }

    /// Notes that a holder knows that its permit is lost, and whether its work counts no more.
    pub(crate) fn permit_is_lost(
        &mut self,
        moment: Moment,
        (number, work): (u64, Work),
        counts_no_more: bool,
    ) {
        self.log.add(moment.now, Some(work.process), Some(work.subject), Event::Lost);
        let in_flight = &mut self.auditor.in_flight;
        in_flight.tally(work.process, work.limiter).lost += 1;
        in_flight.counts.lost += 1;
        if counts_no_more {
            in_flight.is_lost(number);
        }
    }

    /// Notes that work has ended whose permit was lost before, without a word to its holder.
    pub(crate) fn was_not_woken(&mut self, moment: Moment, work: Work) {
        if !self.auditor.in_flight.has_just_resumed(work.process, moment.now) {
            self.violated(moment, work.subject, "a permit was lost, and its holder was not woken");
        }
    }

    /// Notes a call about requests in flight that a server has executed.
    pub(crate) fn in_flight_executed(
        &mut self,
        moment: Moment,
        number: u64,
        script: &'static str,
        call: &InFlightCall<'_>,
        keys: &[(Vec<u8>, bool)],
    ) {
        let in_flight = &self.auditor.in_flight;
        let subjects: Vec<_> = keys
            .iter()
            .filter_map(|(key, is_changed)| Some((in_flight.subject(key)?, *is_changed)))
            .collect();
        for (subject, is_changed) in &subjects {
            let event = Event::Executed { call: number, script, is_changed: *is_changed };
            self.log.add(moment.now, Some(call.process), Some(*subject), event);
        }
        let Some((subject, _)) = subjects.first() else { return };
        let limiter = subject.limiter();
        if let Some(message) = self.auditor.in_flight.executed(limiter, call, moment.now) {
            self.violated(moment, *subject, &message);
        }
        self.check_in_flight(moment);
    }

    /// Checks how many requests are in flight.
    pub(crate) fn check_in_flight(&mut self, moment: Moment) {
        if let Some((subject, message)) = self.auditor.in_flight.check(moment.now) {
            self.violated(moment, subject, &message);
        }
    }
}
