//! Checks what the limiters did, without their code.
//!
//! What is checked at each step:
//!
//! - **Bounds.** Each admission by the store or by a lease counts at one moment between its earliest and its latest:
//!   those of the question and the answer, of a reservation later by its delay. In no stretch of time are there more
//!   permits than the algorithm's published bound. Times are those that have passed by the server's clock, without its
//!   steps. Permits that a refund may give back don't count until its outcome shows that they stayed charged.
//! - **Charges.** An operation whose error is `Unavailable` has changed no state at the server, and any other one has
//!   changed it once at most. That is checked for operations on one key, without leases, if the same process had no other
//!   one under way on it.
//! - **Counters.** When a process ends, the decisions that a limiter has counted are those that its callers saw, apart from
//!   those whose callers saw an error or left.
//! - **Liveness.** After the faults have stopped, each key is admitted at 95 % of its limit: see [`probe`](crate::probe).
//!   Then all tasks have ended.
//!
//! What faults excuse:
//!
//! - *Keys lost or reset, lost writes, a step of the server's clock* start an incarnation of the keys. The permits that
//!   may have been charged in each incarnation have a bound of their own, so a stretch of time with `n` starts has
//!   `n + 1` bounds. *A stale server that answers some processes* has an incarnation of its own as long as it answers.
//! - *A refund by a receipt from before an incarnation* may give back later charges of the key, at most its own permits.
//! - *A suspended process* may spend what it held when it was suspended. Such an admission counts from that moment on.
//! - Decisions by a failure policy are not the store's, and are not checked against its bound. Those of a process's share
//!   are checked against the bound of the share.
//!
//! Nothing else is excused: lost, late and held messages, cuts, partitions, errors, stopped and killed processes, slewed
//! clocks, callers that leave and late refunds never exceed a bound.

mod balance;
mod bound;
mod charges;
mod history;

use std::{collections::BTreeMap, fmt};

use limiter_core::Policy;

pub(crate) use self::{balance::Tally, charges::Begun};
use self::{
    bound::Bound,
    charges::Charges,
    history::{AdmissionId, History},
};
use crate::vocabulary::{Micros, ProcessId, Subject};

/// A check that failed.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The simulated time.
    pub time: Micros,
    /// What is wrong, with which key.
    pub message: String,
    /// The last events of the key, in words.
    pub events: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {} us: {}", self.time, self.message)?;
        self.events.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}

/// The auditor of one run.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    histories: Vec<History>,
    /// The bound of a process's share of each key, if there are shares, and their histories.
    shares: Vec<Option<Bound>>,
    of_shares: BTreeMap<(ProcessId, Subject), History>,
    charges: Charges,
    suspensions: BTreeMap<ProcessId, Suspension>,
    /// What was found, until it is reported.
    found: Vec<(Subject, String)>,
}

/// Where permits are counted: at the store, or in a process that decides without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) subject: Subject,
    pub(crate) share_of: Option<ProcessId>,
}

/// An admission that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    account: Account,
    id: AdmissionId,
}

/// When a process was suspended, and until when it may hold a lease from before that.
#[derive(Clone, Copy, Debug)]
struct Suspension {
    since: Micros,
    until: Micros,
}

impl Auditor {
    /// Adds a key under a policy of one limit. Its permits are charged up to `ahead` before they count. Processes that
    /// decide without the store have a share of this policy each, if there is one.
    pub(crate) fn add(&mut self, policy: &Policy, ahead: Micros, processes: Option<u64>) {
        if let Some(bound) = Bound::of(policy) {
            self.histories.push(History::new(bound, ahead));
            self.shares.push(processes.and_then(|processes| bound.share(processes)));
        }
    }

    /// Notes permits that were admitted, and may count from `earliest` to `latest`.
    pub(crate) fn admitted(
        &mut self,
        account: Account,
        permits: u64,
        earliest: Micros,
        latest: Micros,
    ) -> Option<Admission> {
        let history = self.history(account)?;
        let admission = Admission { account, id: history.add(permits, earliest, latest) };
        self.check(admission);
        // After the check, because reservations count later.
        self.history(account)?.forget(earliest.min(latest));
        Some(admission)
    }

    /// Subtracts permits that a refund may give back from now on, and returns how many.
    pub(crate) fn refunds(&mut self, admission: Admission, permits: u64, now: Micros) -> u64 {
        let history = self.history(admission.account);
        history.map_or(0, |history| history.subtract(admission.id, permits, now))
    }

    /// Counts permits again that a refund did not give back.
    pub(crate) fn stay_charged(&mut self, admission: Admission, permits: u64) {
        if permits == 0 {
            return;
        }
        if let Some(history) = self.history(admission.account) {
            history.add_again(admission.id, permits);
        }
        self.check(admission);
    }

    fn check(&mut self, Admission { account, id }: Admission) {
        let over = self.history(account).and_then(|history| history.over(id));
        if let Some(over) = over {
            let of = account.share_of.map_or(String::new(), |it| format!(" to the share of {it}"));
            let message = format!(
                "{} permits were admitted{of} in {} us, but at most {} may be (from {} us to {} us by the server's clock)",
                over.permits,
                over.to - over.from,
                over.bound,
                over.from,
                over.to,
            );
            self.found.push((account.subject, message));
        }
    }

    /// Returns the history of a key at the store, or of a process's share of it.
    fn history(&mut self, Account { subject, share_of }: Account) -> Option<&mut History> {
        let Some(process) = share_of else { return self.histories.get_mut(subject.0) };
        let bound = (*self.shares.get(subject.0)?)?;
        let new = || History::new(bound, 0);
        Some(self.of_shares.entry((process, subject)).or_insert_with(new))
    }

    /// Notes that a process makes its share of a key fresh. Receipts from before that may give back later charges.
    pub(crate) fn resets_share(&mut self, process: ProcessId, subject: Subject, at: Micros) {
        if let Some(history) = self.history(Account { subject, share_of: Some(process) }) {
            history.has_incarnation(at, Micros::MAX);
        }
    }

    /// Notes that a key has become fresh.
    pub(crate) fn was_reset(&mut self, Subject(index): Subject, at: Micros) {
        self.histories.get_mut(index).into_iter().for_each(|it| it.has_incarnation(at, at));
    }

    /// Notes that all keys have other incarnations from one time to another: because they became fresh or older without
    /// a recovery, or because two servers answer.
    pub(crate) fn have_incarnation(&mut self, from: Micros, to: Micros) {
        self.histories.iter_mut().for_each(|it| it.has_incarnation(from, to));
    }

    /// Notes that a process is suspended.
    pub(crate) fn suspended(&mut self, process: ProcessId, at: Micros) {
        let known = self.suspensions.get(&process).filter(|known| at < known.until);
        let since = known.map_or(at, |known| known.since);
        self.suspensions.insert(process, Suspension { since, until: Micros::MAX });
    }

    /// Notes that a process goes on, which may hold leases for `lasts`.
    pub(crate) fn resumed(&mut self, process: ProcessId, at: Micros, lasts: Micros) {
        if let Some(suspension) = self.suspensions.get_mut(&process) {
            suspension.until = at + lasts;
        }
    }

    /// Returns the earliest moment at which permits count that a process spends of a lease.
    pub(crate) fn earliest_of_lease(&self, process: ProcessId, at: Micros) -> Micros {
        let suspension = self.suspensions.get(&process).filter(|known| at < known.until);
        suspension.map_or(at, |known| known.since.min(at))
    }

    /// Notes that an operation begins.
    pub(crate) fn begins(&mut self, process: ProcessId, subject: Subject, now: Micros) -> Begun {
        self.charges.begins(process, subject, now)
    }

    /// Notes that an operation has ended, for which the key may be changed so many times, if that is known.
    pub(crate) fn ends(&mut self, begun: Begun, now: Micros, changes: Option<usize>) {
        self.charges.ends(begun);
        if let Some(changes) = changes
            && self.charges.allow(begun, now, changes)
        {
            self.found_charge(begun.subject);
        }
    }

    /// Notes that a caller has left, and what was begun for it may go on.
    pub(crate) fn leaves(&mut self, begun: Begun, now: Micros) {
        self.charges.ends(begun);
        self.charges.disturbed(begun, now);
    }

    /// Notes that a call has changed a key at the server.
    pub(crate) fn changed(
        &mut self,
        process: ProcessId,
        subject: Subject,
        sent: Micros,
        now: Micros,
    ) {
        if self.charges.changed(process, subject, sent, now) {
            self.found_charge(subject);
        }
    }

    fn found_charge(&mut self, subject: Subject) {
        let message =
            "the server has charged an operation that was `Unavailable`, or one operation twice";
        self.found.push((subject, message.to_owned()));
    }

    /// Takes what was found since the last time.
    pub(crate) fn take_found(&mut self) -> Vec<(Subject, String)> {
        std::mem::take(&mut self.found)
    }
}
