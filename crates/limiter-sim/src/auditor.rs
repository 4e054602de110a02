//! Checks what the limiters did, without their code.
//!
//! What is checked at each step:
//!
//! - **Bounds.** Each admission by the store or by a lease counts at one moment between its earliest and its latest:
//!   those of the question and the answer, of a reservation later by its delay. In no stretch of time are there more
//!   permits than the algorithm's published bound. Times are those that have passed by the clock of the key's server,
//!   without its steps. Permits that a refund may give back don't count until its outcome shows that they stayed charged.
//!   Each of several limits has its own bound. Quotas that were in use in a stretch have the bound of law 9 there.
//! - **Charges.** An operation whose error is `Unavailable` has changed no state at the server, and any other one has
//!   changed it once at most. That is checked for operations on one key, if the same process had no other one under way on
//!   it, and where no permits are leased.
//! - **Waits.** A cost that the store refused for a wait is refused until that is over, and admitted from then on, as long
//!   as no other call changes the key. The delay of a reservation is that wait, too ([`waits`]). Without leases.
//! - **Liveness.** After the faults have stopped, no check fails, and each key is admitted at 95 % of its limit, or at a
//!   lower share by leased counters, paced slots and several limits: see [`probe`](crate::probe). Then all tasks have ended.
//! - **Requests in flight**: see [`in_flight`].
//!
//! What faults excuse:
//!
//! - *Keys lost or reset, lost writes, a step of the server's clock* start an incarnation of the keys of that server. The
//!   permits that may have been charged in each incarnation have a bound of their own, so a stretch of time with `n`
//!   starts has `n + 1` bounds. *A stale server that answers some processes* has an incarnation of its own as long as it answers.
//! - *A refund by a receipt from before an incarnation* may give back later charges of the key, at most its own permits.
//! - *A suspended process* may spend what it held when it was suspended. Such an admission counts from that moment on.
//! - *Work that is charged afterwards* overshoots by what requests that were in flight together were charged. By a rate of
//!   which permits are leased, and by a process's share, it overshoots up to the horizon, because permits that were
//!   charged before admit one request after the other.
//! - *Another quota* may charge a key by GCRA before permits that were reserved for later, which then come on top. So do
//!   leases of a quota that is slower or has a longer window than another one in use. A receipt from before another quota
//!   was used may give back later charges.
//! - *A reservation that one of several limits delays* lets a limit by GCRA drain. What is refunded meanwhile comes on top.
//! - Decisions by a process's share are not the store's. They are checked against the bound of the share, by every
//!   algorithm.
//! - *Refusals from before an incarnation* say nothing of waits after it.
//!
//! Nothing else is excused: lost, late and held messages, cuts, partitions, errors, stopped and killed processes, slewed
//! clocks, callers that leave and late refunds never exceed a bound.

mod around;
mod bound;
mod charges;
mod history;
mod in_flight;
mod ledger;
mod overshoot;
mod suspensions;
mod uses;
mod waits;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use limiter_core::Policy;

pub(crate) use self::{
    charges::Begun,
    in_flight::{
        Counts as InFlightCounts, Executed as InFlightCall, InFlight, Tally as InFlightTally, Work,
    },
    waits::{Answer, Decided, Waits},
};
use self::{
    charges::Charges,
    history::{AdmissionId, Admitted, UNDER_WAY},
    ledger::Ledger,
    suspensions::Suspensions,
};
use crate::vocabulary::{Micros, Moment, ProcessId, Subject};

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
    keys: Vec<Audited>,
    of_shares: BTreeMap<(ProcessId, Subject), Ledger>,
    charges: Charges,
    waits: Waits,
    pub(crate) suspensions: Suspensions,
    pub(crate) in_flight: InFlight,
    /// What was found, until it is reported.
    found: Vec<(Subject, String)>,
}

/// A key of a limiter.
#[derive(Debug)]
struct Audited {
    ledger: Ledger,
    /// The node of the cluster that has the key.
    node: usize,
    tiers: Vec<Policy>,
    /// How many processes have shares of the key, if they decide without the store.
    processes: Vec<u64>,
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

/// Permits that were admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permits {
    pub(crate) number: u64,
    /// For how much later they were reserved.
    pub(crate) delay: Micros,
    /// If they were charged afterwards: when the request began.
    pub(crate) of_request: Option<Micros>,
}

impl Auditor {
    /// Adds a key under the policies of its tiers. Its permits are charged up to `ahead` before they count. Processes that
    /// decide without the store have a share each, if their number is given.
    pub(crate) fn add(
        &mut self,
        tiers: &[Policy],
        ahead: Micros,
        has_leases: bool,
        processes: Option<u64>,
    ) {
        let Some(mut ledger) = Ledger::new(tiers, ahead, None) else { return };
        ledger.around.has_leases = has_leases;
        let (tiers, processes) = (tiers.to_vec(), processes.into_iter().collect());
        self.keys.push(Audited { ledger, node: 0, tiers, processes });
    }

    /// Notes which node of a cluster has a key.
    pub(crate) fn is_on(&mut self, Subject(index): Subject, node: usize) {
        if let Some(key) = self.keys.get_mut(index) {
            key.node = node;
        }
    }

    /// Returns the node that has a key.
    pub(crate) fn node(&self, Subject(index): Subject) -> usize {
        self.keys.get(index).map_or(0, |key| key.node)
    }

    /// Notes permits that were admitted, and may count from `earliest` to `latest`.
    pub(crate) fn admitted(
        &mut self,
        account: Account,
        permits: Permits,
        (earliest, latest): (Micros, Micros),
    ) -> Option<Admission> {
        let ledger = self.ledger(account)?;
        let Permits { number, delay, of_request } = permits;
        if let Some(from) = of_request {
            ledger.around.requests.add(from, latest, number);
        }
        if delay > 0 {
            let until = &mut ledger.around.reserved_until;
            *until = latest.max(*until);
        }
        let counted = Admitted { permits: number, latest };
        let admission = Admission { account, id: ledger.add(earliest, counted)? };
        self.check(admission);
        // After the check, because reservations count later.
        self.ledger(account)?.forget(earliest.min(latest));
        Some(admission)
    }

    /// Subtracts permits that a refund may give back from now on, and returns how many.
    pub(crate) fn refunds(&mut self, admission: Admission, permits: u64, now: Micros) -> u64 {
        let ledger = self.ledger(admission.account);
        ledger.map_or(0, |ledger| ledger.subtract(admission.id, permits, now))
    }

    /// Counts permits again that a refund did not give back.
    pub(crate) fn stay_charged(&mut self, admission: Admission, permits: u64) {
        if permits == 0 {
            return;
        }
        if let Some(ledger) = self.ledger(admission.account) {
            ledger.add_again(admission.id, permits);
        }
        self.check(admission);
    }

    fn check(&mut self, Admission { account, id }: Admission) {
        let over = self.ledger(account).and_then(|ledger| ledger.over(id));
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

    /// Returns the ledger of a key at the store, or of a process's share of it.
    fn ledger(&mut self, Account { subject, share_of }: Account) -> Option<&mut Ledger> {
        let key = self.keys.get_mut(subject.0)?;
        let Some(process) = share_of else { return Some(&mut key.ledger) };
        let (first, others) = key.processes.split_first()?;
        match self.of_shares.entry((process, subject)) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => {
                let mut share = Ledger::new(&key.tiers, 0, Some(*first))?;
                // Permits that the store admits are charged to the share, too, one request after the other.
                share.around.has_leases = true;
                others.iter().for_each(|number| share.has_share(&key.tiers, *number));
                Some(place.insert(share))
            }
        }
    }

    /// Notes that a process makes its share of a key fresh. Receipts from before that may give back later charges.
    pub(crate) fn resets_share(&mut self, process: ProcessId, subject: Subject, at: Micros) {
        if let Some(share) = self.ledger(Account { subject, share_of: Some(process) }) {
            share.has_incarnation(at, Micros::MAX);
        }
    }

    /// Notes that a key has become fresh.
    pub(crate) fn was_reset(&mut self, subject @ Subject(index): Subject, at: Micros) {
        self.waits.are_void_until(subject, at);
        self.keys.get_mut(index).into_iter().for_each(|it| it.ledger.has_incarnation(at, at));
    }

    /// Notes that all keys of a node have other incarnations from one time to another: because they became fresh or older
    /// without a recovery, or because two servers answer.
    pub(crate) fn have_incarnation(&mut self, node: usize, from: Micros, to: Micros) {
        let of_node = self.keys.iter_mut().enumerate().filter(|(_, key)| key.node == node);
        for (index, key) in of_node {
            key.ledger.has_incarnation(from, to);
            self.waits.are_void_until(Subject(index), to);
        }
    }

    /// Notes that a process is suspended.
    pub(crate) fn suspended(&mut self, process: ProcessId, at: Moment) {
        self.suspensions.begin(process, at);
    }

    /// Notes that processes have a share of each key that is shared by so many.
    pub(crate) fn have_shares(&mut self, processes: u64) {
        for key in self.keys.iter_mut().filter(|key| !key.processes.contains(&processes)) {
            key.processes.push(processes);
        }
        for ((_, Subject(index)), share) in &mut self.of_shares {
            if let Some(key) = self.keys.get(*index) {
                share.has_share(&key.tiers, processes);
            }
        }
    }

    /// Notes that a process uses a tier for a key from now on.
    pub(crate) fn uses(
        &mut self,
        (process, subject): (ProcessId, Subject),
        tier: usize,
        at: Micros,
    ) {
        for share_of in [None, Some(process)] {
            if let Some(ledger) = self.ledger(Account { subject, share_of }) {
                ledger.around.uses.begin(process, tier, at);
            }
        }
    }

    /// Notes that a process has ended an operation by a tier. Calls for it are executed by now, unless they `may_follow`.
    pub(crate) fn used(
        &mut self,
        (process, subject): (ProcessId, Subject),
        tier: usize,
        at: Micros,
        may_follow: bool,
    ) {
        let until = if may_follow { at + UNDER_WAY } else { at };
        for share_of in [None, Some(process)] {
            if let Some(ledger) = self.ledger(Account { subject, share_of }) {
                ledger.around.uses.end(process, tier, until);
            }
        }
    }

    /// Notes that a process was killed.
    pub(crate) fn killed(&mut self, process: ProcessId, moment: Moment) {
        for key in &mut self.keys {
            key.ledger.around.uses.killed(process, moment.passed(key.node) + UNDER_WAY);
        }
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
        moment: Moment,
    ) {
        let now = moment.now;
        self.waits.changed(subject, moment.passed(self.node(subject)));
        if self.charges.changed(process, subject, sent, now) {
            self.found_charge(subject);
        }
    }

    pub(crate) fn found_charge(&mut self, subject: Subject) {
        let message =
            "the server has charged an operation that was `Unavailable`, or one operation twice";
        self.found.push((subject, message.to_owned()));
    }

    /// Takes what was found since the last time.
    pub(crate) fn take_found(&mut self) -> Vec<(Subject, String)> {
        std::mem::take(&mut self.found)
    }
}
