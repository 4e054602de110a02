//! Checks what the limiters did, without their code. It knows few things, and knows them surely.
//!
//! - **Bound.** Each admission by the store or by a lease counts at one moment between its earliest and its latest: those of
//!   the question and the answer, of a reservation later by its delay. In no stretch of time are there more permits than
//!   the algorithm's published bound, for each of several limits; of several quotas that were used, than the sum of theirs.
//!   Times are those that have passed by the servers' clock, without its steps. Permits that a refund may give back don't
//!   count until its outcome shows that they stayed charged.
//! - **Charges.** What callers were told is compared with what the servers have written. An operation that failed with
//!   `Unavailable` has changed no state. Any other one has changed it at most once, and one that the store admitted has
//!   changed it. That is known of operations on one key, without leases, if the process had no other one under way on it.
//! - **Requests in flight.** Work counts from when its caller has the permit until it ends, or its holder knows that the permit
//!   is lost. For each limit, at most so many requests of a key are at work that entered under this limit or a lower one.
//!   Each permit that is lost is reported once.
//! - **In the end**, no check fails, each key is admitted at its limit again, and nothing is held: see
//!   [`finish`](crate::finish).
//!
//! Where it can't know, it does not judge:
//!
//! - A key is *void* until a moment: nothing counts that was asked for before. So it is after a loss of keys, a reset, a
//!   failover or a step of the clock, while a stale server answers beside the other one, and while a receipt from before
//!   such a moment is refunded. Where permits are leased, that lasts until leases from before have ended.
//! - While one of several limits delays reservations, limits by GCRA drain, and refunds give back too much: law 7.
//! - A process that was suspended may spend what it held, and holds what it held.
//! - Nothing is known of decisions by a process's share.
//! - Work that is charged afterwards only adds to what a key is charged, so it does not count.

mod bound;
mod charges;
mod in_flight;
mod key;

use std::collections::BTreeMap;

use limiter_core::{Policy, Source};

pub(crate) use self::{
    charges::Begun,
    in_flight::{InFlight, Work},
};
use self::{
    charges::Charges,
    key::{Id, Key},
};
use crate::vocabulary::{Micros, Moment, ProcessId, Subject, UNDER_WAY};

/// The auditor of one run.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    keys: BTreeMap<Subject, Key>,
    pub(crate) charges: Charges,
    pub(crate) in_flight: InFlight,
    /// Until when processes may spend what they held before they were suspended.
    suspended: BTreeMap<ProcessId, Micros>,
    /// How many permits were admitted by the store and by leases, and how many of them counted.
    pub(crate) admitted: u64,
    pub(crate) counted: u64,
    /// What was found, until it is reported.
    pub(crate) found: Vec<(Subject, String)>,
}

/// What identifies an admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    subject: Subject,
    asked: Micros,
    id: Option<Id>,
}

/// Permits that a caller was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) permits: u64,
    pub(crate) source: Source,
    pub(crate) asked: Moment,
    /// For how much later they were reserved.
    pub(crate) delay: Micros,
    /// Whether they were charged whether or not they fit.
    pub(crate) is_charge: bool,
}

impl Auditor {
    /// Adds a key under the policies of its tiers. If permits are leased, they are charged up to `ahead` before they count.
    pub(crate) fn add(&mut self, subject: Subject, tiers: &[Policy], ahead: Option<Micros>) {
        self.keys.insert(subject, Key::new(tiers, ahead.unwrap_or(0)));
    }

    /// Notes that a key is used by a tier.
    pub(crate) fn uses(&mut self, subject: Subject, tier: usize) {
        self.keys.entry(subject).and_modify(|key| key.uses(tier));
    }

    /// Notes permits that were admitted.
    pub(crate) fn admitted(
        &mut self,
        (process, subject): (ProcessId, Subject),
        granted: Granted,
        moment: Moment,
    ) -> Option<Admission> {
        let Granted { permits, source, asked, delay, is_charge } = granted;
        let key = self.keys.get_mut(&subject)?;
        let is_held = source == Source::Lease
            && self.suspended.get(&process).is_some_and(|until| asked.passed < *until);
        let mut admission = Admission { subject, asked: asked.passed, id: None };
        if source == Source::Local || is_charge {
            return Some(admission);
        }
        self.admitted += permits;
        key.reserves(moment.passed + delay, delay);
        if is_held || key.is_void(asked.passed) {
            return Some(admission);
        }
        self.counted += permits;
        // A waiter sleeps by its own clock until the server's moment, and may be early by the difference of their rates.
        let early = (moment.passed - asked.passed) / 1_000;
        let id = key.add(asked.passed + delay, moment.passed + early + delay, permits);
        admission.id = Some(id);
        self.check(subject, id);
        Some(admission)
    }

    fn check(&mut self, subject: Subject, id: Id) {
        let message = self.keys.get(&subject).and_then(|key| key.over(id));
        self.found.extend(message.map(|message| (subject, message)));
    }

    /// Subtracts permits that a refund may give back from now on, and returns how many.
    pub(crate) fn refunds(&mut self, admission: Admission, permits: u64, moment: Moment) -> u64 {
        let Some(key) = self.keys.get_mut(&admission.subject) else { return 0 };
        if key.is_void(admission.asked) || key.drains(moment.passed) {
            key.voids(moment.passed + UNDER_WAY);
            return 0;
        }
        admission.id.map_or(0, |id| key.subtract(id, permits))
    }

    /// Counts permits again that a refund did not give back.
    pub(crate) fn stay_charged(&mut self, admission: Admission, permits: u64) {
        let key = self.keys.get_mut(&admission.subject);
        if let Some((key, id)) = key.zip(admission.id).filter(|_| permits > 0) {
            key.add_again(id, permits);
            self.check(admission.subject, id);
        }
    }

    /// Notes that an operation has ended. A list may still refund what it was charged before a key was void.
    pub(crate) fn ended(&mut self, subject: Subject, asked: Moment, is_list: bool, now: Moment) {
        if let Some(key) = self.keys.get_mut(&subject)
            && is_list
            && key.is_void(asked.passed)
        {
            key.voids(now.passed + UNDER_WAY);
        }
    }

    /// Notes that a key, or all of them, became fresh or older without a recovery, for so long from a moment on.
    pub(crate) fn voids(&mut self, subject: Option<Subject>, from: Moment, lasts: Micros) {
        // The servers' clock may be slewed meanwhile.
        let until = from.passed + lasts + lasts / 1_000 + 1;
        for (of, key) in &mut self.keys {
            if subject.is_none_or(|subject| subject == *of) {
                key.voids(until);
            }
        }
        self.in_flight.voids(subject, from.now + lasts + 1);
    }

    /// Notes that a process is suspended, or goes on and may spend what it held until a moment.
    pub(crate) fn suspends(&mut self, process: ProcessId, until: Option<Moment>, holds: Micros) {
        let passed = until.map_or(Micros::MAX, |moment| moment.passed + holds);
        self.suspended.insert(process, passed);
        let now = until.map_or(Micros::MAX, |moment| moment.now + 1);
        self.in_flight.suspends(process, now);
    }
}
