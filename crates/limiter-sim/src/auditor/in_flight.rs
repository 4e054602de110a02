//! Whether requests in flight keep their limits, by what their holders do and by what servers execute.
//!
//! - **Bound.** Work counts from when its caller has the permit until it ends, is lost, or its process is stopped or killed.
//!   At each moment and for each limit, at most so many requests of a key are at work that entered under this limit or a
//!   lower one. Each loss of keys, each reset of the key, each failover, each step of the server's clock ahead and each stale server allows as many
//!   once more, until one expiry after it: by then each permit was renewed on what the server has left, or is lost. Work
//!   that goes on after its permit was lost comes on top. Each such permit is an event.
//! - **Shares.** While the store can't decide, a process admits a request if it has fewer of the key than its share.
//! - **Refusals.** A request that was refused was refused by as many permits whose deadlines were not over.
//! - **Resets.** A key that was reset has no permits.
//! - **Renewals.** No permit is renewed that is younger than a sixth of its expiry.
//!
//! A suspended process does not know that time has passed. What it had before that does not count until one expiry after it
//! goes on. What is checked after the faults: see [`finish_in_flight`](crate::finish_in_flight).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::vocabulary::{Micros, ProcessId, Subject};

/// What is known of requests in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The keys as servers have them.
    stored: BTreeMap<Vec<u8>, Subject>,
    keys: BTreeMap<Subject, Key>,
    work: BTreeMap<u64, Work>,
    /// Work whose permits processes have by their shares, because the store could not decide.
    of_shares: BTreeMap<u64, Work>,
    begun: u64,
    /// When the first request for the permit of each key and id was sent.
    asked: BTreeMap<(Subject, Vec<u8>), Micros>,
    stopped: BTreeSet<ProcessId>,
    /// When processes have gone on that were stopped.
    resumed: BTreeMap<ProcessId, Micros>,
    /// When suspended processes have gone on.
    suspended: BTreeMap<ProcessId, Micros>,
    losses: Vec<Loss>,
    /// By how much clocks have stepped back, together.
    pub(crate) stepped_back: Micros,
    /// By process, and by the index of the limiter.
    tallies: BTreeMap<(ProcessId, usize), Tally>,
    pub(crate) counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    node: usize,
    expiry: Micros,
}

/// A request at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) process: ProcessId,
    pub(crate) subject: Subject,
    /// The index of the limiter.
    pub(crate) limiter: usize,
    pub(crate) limit: u32,
    /// When it asked to enter.
    pub(crate) asked: Micros,
    pub(crate) is_lost: bool,
}

/// A server has lost what it knew, of all keys or of one, until a time.
#[derive(Clone, Copy, Debug)]
struct Loss {
    node: usize,
    subject: Option<Subject>,
    until: Micros,
}

/// What callers of a process have seen of a limiter, and what servers have executed for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) calls: u64,
    pub(crate) renewals: u64,
}

/// How often something was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) renewed: u64,
    pub(crate) restored: u64,
    /// Keys that were reset, and permits by the share of a process.
    pub(crate) reset: u64,
    pub(crate) local: u64,
    /// Moments at which more were at work than the limit, after a loss or with permits that were lost.
    pub(crate) over: u64,
}

/// A call that a server has executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed<'a> {
    pub(crate) process: ProcessId,
    pub(crate) sent: Micros,
    pub(crate) script: &'a str,
    pub(crate) keys: &'a [Vec<u8>],
    pub(crate) arguments: &'a [Vec<u8>],
    pub(crate) is_error: bool,
    /// The numbers of the reply, `None` if it is an error.
    pub(crate) numbers: Option<&'a [i64]>,
    /// How many permits of the first key have deadlines that are not over.
    pub(crate) unexpired: usize,
}

impl InFlight {
    /// Notes that a node has a key for a subject, whose permits expire.
    pub(crate) fn add(&mut self, subject: Subject, key: Vec<u8>, node: usize, expiry: Micros) {
        self.stored.insert(key, subject);
        self.keys.insert(subject, Key { node, expiry });
    }

    /// Returns the subject of a stored key.
    pub(crate) fn subject(&self, key: &[u8]) -> Option<Subject> {
        self.stored.get(key).copied()
    }

    pub(crate) fn tally(&mut self, process: ProcessId, limiter: usize) -> &mut Tally {
        self.tallies.entry((process, limiter)).or_default()
    }

    /// Notes that a request is at work, and returns its number.
    pub(crate) fn begins(&mut self, work: Work) -> u64 {
        self.counts.admitted += 1;
        self.begun += 1;
        self.work.insert(self.begun, work);
        self.begun
    }

    /// Notes that a request is at work by its process's share, and returns its number. Together with those that the store
    /// has admitted, the process may have so many of the key.
    pub(crate) fn begins_by_share(&mut self, work: Work, share: u32) -> (u64, Option<String>) {
        self.counts.local += 1;
        self.begun += 1;
        let is_same = |it: &&Work| (it.process, it.subject) == (work.process, work.subject);
        let held = self.work.values().chain(self.of_shares.values()).filter(is_same).count();
        self.of_shares.insert(self.begun, work);
        let message = (held >= share as usize).then(|| {
            format!(
                "{} has {} requests in flight of a key, but its share is {share}",
                work.process,
                held + 1
            )
        });
        (self.begun, message)
    }

    /// Notes that the holder of a permit knows that it is lost.
    pub(crate) fn is_lost(&mut self, number: u64) {
        if let Some(work) = self.work.get_mut(&number) {
            work.is_lost = true;
        }
    }

    pub(crate) fn ends(&mut self, number: u64) {
        self.work.remove(&number);
        self.of_shares.remove(&number);
    }

    /// Returns how many requests are at work.
    pub(crate) fn at_work(&self) -> usize {
        self.work.len() + self.of_shares.len()
    }

    pub(crate) fn stops(&mut self, process: ProcessId, is_suspended: bool) {
        self.stopped.insert(process);
        if is_suspended {
            self.suspended.insert(process, Micros::MAX);
        }
    }

    /// Returns whether a process goes on at this moment.
    pub(crate) fn has_just_resumed(&self, process: ProcessId, now: Micros) -> bool {
        self.resumed.get(&process) == Some(&now)
    }

    pub(crate) fn resumes(&mut self, process: ProcessId, now: Micros) {
        self.stopped.remove(&process);
        self.resumed.insert(process, now);
        if let Some(resumed) = self.suspended.get_mut(&process).filter(|it| **it == Micros::MAX) {
            *resumed = now;
        }
    }

    /// Notes that a node has lost what it knew, or that two servers answer in its place, until a time.
    pub(crate) fn loses(&mut self, node: usize, until: Micros) {
        self.losses.push(Loss { node, subject: None, until });
    }

    /// Notes that the clock of a node has stepped ahead, also for a stale server that answers beside it.
    pub(crate) fn steps_ahead(&mut self, node: usize, now: Micros) {
        if self.losses.iter().any(|loss| loss.node == node && now < loss.until) {
            self.loses(node, now);
        }
        self.loses(node, now);
    }

    /// Returns how many requests are at work more than may be, as a message.
    pub(crate) fn check(&mut self, now: Micros) -> Option<(Subject, String)> {
        let mut limits: BTreeMap<Subject, Vec<u32>> = BTreeMap::new();
        let mut is_over = false;
        for work in self.work.values().filter(|work| !self.stopped.contains(&work.process)) {
            if work.is_lost || self.is_excused(work, now) {
                is_over = true;
            } else {
                limits.entry(work.subject).or_default().push(work.limit);
            }
        }
        for (subject, mut limits) in limits {
            let Some(Key { node, expiry }) = self.keys.get(&subject).copied() else { continue };
            let is_near = |loss: &&Loss| {
                loss.node == node
                    && loss.subject.is_none_or(|it| it == subject)
                    && now <= loss.until + expiry
            };
            let losses = self.losses.iter().filter(is_near).count();
            limits.sort_unstable();
            for (others, limit) in limits.into_iter().enumerate() {
                let (limit, at_work) = (limit as usize, others + 1);
                is_over |= at_work > limit;
                if at_work > limit * (1 + losses) {
                    let message = format!(
                        "{at_work} requests are in flight that entered under {limit} or less, after {losses} losses"
                    );
                    return Some((subject, message));
                }
            }
        }
        self.counts.over += u64::from(is_over);
        None
    }

    /// Returns whether the holder can't know yet that its permit is lost, because its process was suspended.
    fn is_excused(&self, work: &Work, now: Micros) -> bool {
        let expiry = self.keys.get(&work.subject).map_or(0, |key| key.expiry);
        let resumed = self.suspended.get(&work.process);
        resumed.is_some_and(|at| work.asked <= *at && now <= at.saturating_add(expiry))
    }

    /// Notes a call that a server has executed. Returns what is wrong with it.
    pub(crate) fn executed(
        &mut self,
        limiter: usize,
        call: &Executed<'_>,
        now: Micros,
    ) -> Option<String> {
        let tally = self.tally(call.process, limiter);
        if call.numbers.is_some() {
            tally.calls += 1;
            tally.renewals += u64::from(call.script == "renew");
        }
        match (call.script, call.arguments) {
            ("enter", [_, entering @ ..]) => {
                for (key, words) in call.keys.iter().zip(entering.chunks(2)) {
                    let subject = self.subject(key)?;
                    self.asked.entry((subject, words.last()?.clone())).or_insert(call.sent);
                }
                // Several requests that are made at the same moment share a call, and their replies are not read.
                let [limit, _] = entering else { return None };
                let limit = usize::try_from(number(limit)?).ok()?;
                let is_refused = matches!(call.numbers, Some([0, _]));
                self.counts.refused += u64::from(is_refused);
                (is_refused && call.unexpired < limit).then(|| {
                    format!(
                        "a request was refused under {limit}, although {} are held",
                        call.unexpired
                    )
                })
            }
            ("reset", _) if !call.is_error => {
                let subject = self.subject(call.keys.first()?)?;
                let node = self.keys.get(&subject)?.node;
                self.losses.push(Loss { node, subject: Some(subject), until: now });
                self.counts.reset += 1;
                let left = call.unexpired;
                (left > 0).then(|| format!("a key was reset, and {left} permits are held"))
            }
            ("renew", [_, arguments @ ..]) => self.renewed(call, arguments),
            _ => None,
        }
    }

    fn renewed(&mut self, call: &Executed<'_>, mut arguments: &[Vec<u8>]) -> Option<String> {
        for reply in call.numbers.unwrap_or_default() {
            self.counts.renewed += u64::from(*reply == 1);
            self.counts.restored += u64::from(*reply == 2);
        }
        for key in call.keys {
            let (permits, rest) = arguments.split_first()?;
            let permits = usize::try_from(number(permits)?).ok()?;
            let (ids, rest) = rest.split_at_checked(permits)?;
            // Behind the ids are the limits.
            arguments = rest.get(permits..)?;
            let subject = self.subject(key)?;
            let sixth = self.keys.get(&subject)?.expiry / 6;
            for id in ids {
                let Some(asked) = self.asked.get(&(subject, id.clone())) else {
                    return Some("a permit was renewed that nobody has taken".to_owned());
                };
                let age = call.sent - asked;
                // Clocks of processes run a little faster or slower.
                if age < sixth - sixth / 1_000 {
                    return Some(format!(
                        "a permit was renewed after {age} us, a sixth is {sixth} us"
                    ));
                }
            }
        }
        None
    }
}

fn number(word: &[u8]) -> Option<u64> {
    str::from_utf8(word).ok()?.parse().ok()
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, refused, lost, renewed, restored, reset, local, over } = self;
        write!(
            f,
            "{admitted} requests entered, {refused} refused, {renewed} permits kept, {restored} restored, {lost} lost, {over} \
             moments above a limit, {reset} resets, {local} permits of shares"
        )
    }
}

#[cfg(test)]
mod tests;
