//! What services charge, and how they block keys.
//!
//! - **Charges.** By a window that is longer than the run, what a key is charged in the end is the sum of what requests
//!   were charged: those that were admitted, less what was given back. Requests that were dropped may have been charged,
//!   or not. Requests that were refused were not. Each operation that failed by the counters of a limiter or a rule may
//!   make a difference. Keys of servers that lost writes or keys are left out. By other windows, the bounds of
//!   [`bound`](super::bound) hold.
//! - **Joint decisions.** Each enforced rule has admitted an admitted request, unless its store has failed. A request of
//!   a client that has used up its own key charges no other rule, not even if it is dropped.
//! - **Waits.** A request that is dropped while it waits has charged nothing but the rule for which it waits. No more wait
//!   for a key than may, and none longer than it may.
//! - **Blocks.** Each block at the server follows so many strikes within the time, and no two follow the same ones. No
//!   strike is counted while a key is blocked, and none that no service has sent. A key is refused while it is blocked,
//!   and not refused as blocked afterwards. A block lasts for the time that was set, or if they double, for the time of its
//!   level ([`levels`]). Nothing lifts it. Strikes are cleared by blocks and, where a success clears them, by successes,
//!   which clear levels, too.

mod blocks;
mod levels;

use std::{collections::BTreeMap, fmt};

pub(crate) use self::blocks::Part;
use self::{blocks::Blocks, levels::ROUNDED};
use super::{Account, Admission, Auditor, Permits};
use crate::{
    service_plan::{Outcome, Plan, RULES, TENANT, USER, permits},
    vocabulary::{KEYS, Micros, Moment, ProcessId, Subject, subject},
};

/// What is known of all services.
#[derive(Debug, Default)]
pub(crate) struct Services {
    accounts: BTreeMap<Subject, Conserved>,
    of_local: BTreeMap<ProcessId, Conserved>,
    blocks: BTreeMap<Subject, Blocks>,
    /// What processes that were killed have not sent, and how many of their operations have an unknown outcome.
    pub(crate) unsent: u64,
    pub(crate) unknown: u64,
    pub(crate) counts: Counts,
}

/// How often something was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    /// Requests that were dropped, and those of them whose key had no permits left.
    pub(crate) left: u64,
    pub(crate) left_over_limit: u64,
    /// Requests that began to wait, and those of them that were dropped meanwhile.
    pub(crate) waited: u64,
    pub(crate) left_waiting: u64,
    pub(crate) given_back: u64,
    pub(crate) strikes: u64,
    /// How often a success has cleared strikes.
    pub(crate) cleared: u64,
    pub(crate) blocks: u64,
    pub(crate) refused_blocked: u64,
    /// Keys whose charges were compared in the end.
    pub(crate) balanced: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests admitted, {} dropped ({} over their limit), {} waited ({} were dropped), {} given back, {} \
             strikes, {} cleared, {} blocks, {} refused as blocked, {} keys compared",
            self.admitted,
            self.left,
            self.left_over_limit,
            self.waited,
            self.left_waiting,
            self.given_back,
            self.strikes,
            self.cleared,
            self.blocks,
            self.refused_blocked,
            self.balanced
        )
    }
}

/// The charges of a key, which add up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conserved {
    limit: u64,
    /// Whether permits are charged afterwards.
    may_exceed: bool,
    charged: u64,
    given_back: u64,
    uncertain: u64,
    is_void: bool,
}

/// Permits that a rule has charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) subject: Subject,
    pub(crate) permits: u64,
    pub(crate) within: (Micros, Micros),
    /// Whether the bound of its limit is checked.
    pub(crate) is_bounded: bool,
}

impl Conserved {
    pub(crate) const fn new(limit: u64, may_exceed: bool) -> Self {
        Self { limit, may_exceed, charged: 0, given_back: 0, uncertain: 0, is_void: false }
    }

    /// Returns a message if a key is charged what does not follow from its requests.
    fn disagrees(&self, used: u64, (unsent, unknown): (u64, u64)) -> Option<String> {
        let kept = self.charged.saturating_sub(self.given_back);
        let most = kept + self.uncertain + unsent + unknown;
        let least = if self.may_exceed { kept.saturating_sub(unsent) } else { kept };
        let least = least.min(self.limit);
        (used < least || most < used).then(|| {
            format!("{used} permits are charged in the end, but {least} to {most} should be")
        })
    }
}

impl Services {
    /// Returns what has to be known of the services of a run.
    pub(crate) fn of(plan: &Plan) -> Self {
        // The keys whose charges add up, each with its limit.
        let long = (0..RULES.len()).filter(|rule| plan.is_long(*rule));
        let accounts = long.flat_map(|rule| {
            let limit = plan.policies.get(rule).map_or(0, permits);
            let may_exceed = rule == TENANT && plan.outcome == Outcome::ChargedAfter;
            (0..KEYS.len()).map(move |key| (subject(rule, key), Conserved::new(limit, may_exceed)))
        });
        let blocks = (0..KEYS.len()).filter_map(|key| Some((subject(USER, key), plan.block?)));
        Self {
            accounts: accounts.collect(),
            blocks: blocks.map(|(subject, by)| (subject, Blocks::new(by))).collect(),
            ..Self::default()
        }
    }

    /// Notes that a key was reset, which lost its charges.
    pub(super) fn was_reset(&mut self, subject: Subject) {
        self.accounts.get_mut(&subject).into_iter().for_each(|it| it.is_void = true);
    }

    /// Notes that a key has become fresh or older.
    pub(super) fn are_void(&mut self, subject: Subject) {
        self.was_reset(subject);
        self.blocks.get_mut(&subject).into_iter().for_each(|it| it.is_void = true);
    }
}

impl Auditor {
    /// Notes that a layer has forwarded a request.
    pub(crate) const fn request_admitted(&mut self) {
        self.services.counts.admitted += 1;
    }

    /// Notes that a request was admitted that a rule has not admitted, although its store has not failed.
    pub(crate) fn is_uncounted(&mut self, subject: Subject, rule: &str) {
        self.found.push((subject, format!("a request was admitted without the rule {rule:?}")));
    }

    /// Notes that a rule has charged a request, and returns the admission if its bound is checked.
    pub(crate) fn service_charged(&mut self, charge: Charge) -> Option<Admission> {
        let Charge { subject, permits, within, is_bounded } = charge;
        let account = self.services.accounts.get_mut(&subject);
        if let Some(account) = account.filter(|account| !account.is_void) {
            account.charged += permits;
            let Conserved { limit, charged, given_back, may_exceed, .. } = *account;
            if charged - given_back > limit && !may_exceed {
                let kept = charged - given_back;
                let message = format!("{kept} permits were admitted, but at most {limit} may be");
                self.found.push((subject, message));
            }
        }
        let permits = Permits { number: permits, delay: 0, of_request: None };
        is_bounded.then(|| self.admitted(Account { subject, share_of: None }, permits, within))?
    }

    /// Notes that a rule gives permits back.
    pub(crate) fn service_refunds(
        &mut self,
        subject: Subject,
        admission: Option<Admission>,
        permits: u64,
        at: Micros,
    ) {
        if permits == 0 {
            return;
        }
        self.services.counts.given_back += 1;
        if let Some(account) = self.services.accounts.get_mut(&subject).filter(|it| !it.is_void) {
            account.given_back += permits;
        }
        if let Some(admission) = admission {
            self.refunds(admission, permits, at);
        }
    }

    /// Notes that the rule in memory has charged a request.
    pub(crate) fn local_charged(&mut self, process: ProcessId, permits: u64) {
        self.services.of_local.entry(process).or_default().charged += permits;
    }

    /// Notes that a request was dropped, and what it may have charged. If the client's own key `is_over` its limit, it has charged nothing.
    pub(crate) fn request_left<const N: usize>(
        &mut self,
        process: ProcessId,
        demands: [(Subject, u64); N],
        is_over: bool,
    ) {
        self.services.counts.left += 1;
        if is_over {
            self.services.counts.left_over_limit += 1;
            return;
        }
        for (subject, permits) in demands {
            if let Some(account) = self.services.accounts.get_mut(&subject) {
                account.uncertain += permits;
            }
        }
        self.services.of_local.entry(process).or_default().uncertain += 1;
    }

    /// Notes that a request begins to wait, as one of so many of its process and key, of which there may be `most`.
    pub(crate) fn waits(&mut self, rule: Subject, number: usize, most: usize) {
        self.services.counts.waited += 1;
        if number > most {
            let message = format!("{number} requests of a process wait for a key, {most} may");
            self.found.push((rule, message));
        }
    }

    /// Notes that a request has waited from a time to another one, which may be `most` apart.
    pub(crate) fn has_waited(
        &mut self,
        rule: Subject,
        process: ProcessId,
        (since, until): (Micros, Micros),
        most: Micros,
    ) {
        if until > since + most && !self.in_flight.has_stopped_since(process, since) {
            let waited = until - since;
            let message = format!("a request has waited for {waited} us, {most} at most");
            self.found.push((rule, message));
        }
    }

    /// Notes that a request was dropped while it waited. So only the rule for which it waited may have charged it, whose
    /// charges don't add up.
    pub(crate) const fn waiter_left(&mut self) {
        self.services.counts.left += 1;
        self.services.counts.left_waiting += 1;
    }

    /// Returns whether requests that are known to be charged have used up a key.
    pub(crate) fn is_used_up(&self, subject: Subject) -> bool {
        let account = self.services.accounts.get(&subject);
        account.is_some_and(|it| !it.is_void && it.charged - it.given_back >= it.limit)
    }

    /// Compares the permits of a key that are charged with what its requests were charged. So many operations were not
    /// sent, or have an unknown outcome.
    pub(crate) fn balances(&mut self, subject: Subject, used: u64, unsure: (u64, u64)) {
        let account = self.services.accounts.get(&subject).filter(|account| !account.is_void);
        let Some(account) = account else { return };
        self.services.counts.balanced += 1;
        let message = account.disagrees(used, unsure);
        self.found.extend(message.map(|message| (subject, message)));
    }

    /// The same for the rule in memory of a process.
    pub(crate) fn balances_local(&mut self, process: ProcessId, used: u64, limit: u64) {
        let account = self.services.of_local.get(&process).copied().unwrap_or_default();
        let message = Conserved { limit, ..account }.disagrees(used, (0, 0));
        let message = message.map(|message| format!("in the memory of {process}, {message}"));
        self.found.extend(message.map(|message| (Subject::ALL, message)));
    }

    /// Notes that a service sends a strike.
    pub(crate) fn strikes(&mut self, subject: Subject) {
        self.services.counts.strikes += 1;
        self.services.blocks.get_mut(&subject).into_iter().for_each(|it| it.sent += 1);
    }

    /// Notes that a service sends a success, which clears the strikes of its key.
    pub(crate) fn clears(&mut self, subject: Subject) {
        self.services.blocks.get_mut(&subject).into_iter().for_each(Blocks::succeeds);
    }

    /// Notes that all keys are about to be reset by hand.
    pub(crate) fn resets_all_blocks(&mut self) {
        self.services.blocks.values_mut().for_each(|blocks| blocks.is_reset = true);
    }

    /// Notes that a call has changed a state of blocks, at a time. A block lasts for a time from now on.
    pub(crate) fn block_changed(
        &mut self,
        subject: Subject,
        part: Part,
        script: &str,
        (at, lasts): (Micros, Micros),
    ) {
        let Some(blocks) = self.services.blocks.get_mut(&subject) else { return };
        if part == Part::Block && script != "reset" {
            self.services.counts.blocks += 1;
        }
        let before = blocks.cleared;
        let message = blocks.changed(part, script, (at, lasts)).filter(|_| !blocks.is_void);
        self.services.counts.cleared += blocks.cleared - before;
        self.found.extend(message.map(|message| (subject, message)));
    }

    /// Notes that a request was refused because its key is blocked. A process may repeat that for so long.
    pub(crate) fn refuses_blocked(&mut self, subject: Subject, asked: Moment, late: Micros) {
        self.services.counts.refused_blocked += 1;
        let asked = asked.passed(self.node(subject));
        let Some(blocks) = self.services.blocks.get(&subject) else { return };
        let until = blocks.blocked.map_or(0, |(_, until)| until).max(blocks.full_until);
        if asked > until + late && !blocks.is_void && self.suspensions.are_none() {
            let message = format!(
                "a request at {asked} us was refused as blocked, but no later than {until} us may be"
            );
            self.found.push((subject, message));
        }
    }

    /// Notes that a store has admitted a request of a key, which is not blocked.
    pub(crate) fn admits_unblocked(&mut self, subject: Subject, asked: Moment, now: Moment) {
        let node = self.node(subject);
        let (asked, now) = (asked.passed(node), now.passed(node));
        let Some(blocks) = self.services.blocks.get(&subject).filter(|it| !it.is_void) else {
            return;
        };
        if let Some((from, until)) = blocks.blocked
            && from < asked
            && now + ROUNDED < until
        {
            let message =
                format!("a request was admitted from {asked} us to {now} us by a blocked key");
            self.found.push((subject, message));
        }
    }

    /// Returns how many blocks a key has had.
    pub(crate) fn blocks(&self, subject: Subject) -> u64 {
        self.services.blocks.get(&subject).map_or(0, |blocks| blocks.blocks)
    }

    /// Notes that nothing is known of a key's strikes and blocks but that it is fresh.
    pub(crate) fn has_fresh_blocks(&mut self, subject: Subject) {
        if let Some(blocks) = self.services.blocks.get_mut(&subject) {
            blocks.are_fresh();
        }
    }
}
