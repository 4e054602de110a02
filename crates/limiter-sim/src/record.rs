//! The one record of what happened: its last events in words, a hash over all, and what the auditor makes of them.

mod event;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    mem,
};

use limiter_core::{Error, ErrorKind, Source};

pub(crate) use self::event::Event;
use crate::{
    auditor::{Admission, Auditor, Begun, Granted},
    servers::Executed,
    vocabulary::{Micros, Moment, ProcessId, Subject},
};

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

/// How many events of a key are kept.
const KEPT: usize = 50;

#[derive(Clone, Copy, Debug, Hash)]
struct Line {
    number: u64,
    time: Micros,
    process: Option<ProcessId>,
    event: Event,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) operation: &'static str,
    pub(crate) permits: u64,
    /// By which of the policies that take turns.
    pub(crate) tier: usize,
    /// Whether each of its calls is its own, and for one key: not with leases, nor for a list of demands.
    pub(crate) is_direct: bool,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) begun: Begun,
    pub(crate) asked: Moment,
    question: Question,
}

/// How an operation has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// With an answer; `is_charged` if the store has admitted permits.
    Answered {
        is_charged: bool,
    },
    Failed(&'a Error),
    /// Its caller has left.
    Left,
}

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) auditor: Auditor,
    /// The names of all keys, for messages.
    names: BTreeMap<Subject, String>,
    /// The keys as the servers have them.
    stored: BTreeMap<Vec<u8>, Subject>,
    hasher: DefaultHasher,
    lines: u64,
    of_subjects: BTreeMap<Option<Subject>, VecDeque<Line>>,
    pub(crate) decisions: u64,
    pub(crate) violations: Vec<Violation>,
}

impl Record {
    pub(crate) fn name(&mut self, subject: Subject, name: String) {
        self.names.insert(subject, name);
    }

    /// Notes which keys the servers have for a subject.
    pub(crate) fn is_stored_at(&mut self, subject: Subject, keys: Vec<Vec<u8>>) {
        self.stored.extend(keys.into_iter().map(|key| (key, subject)));
    }

    /// Returns the keys that servers may have.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&Vec<u8>, Subject)> {
        self.stored.iter().map(|(key, subject)| (key, *subject))
    }

    /// Adds an event of a process, of a key, or of all of them.
    pub(crate) fn note(
        &mut self,
        moment: Moment,
        process: Option<ProcessId>,
        subject: Option<Subject>,
        event: Event,
    ) {
        self.lines += 1;
        let line = Line { number: self.lines, time: moment.now, process, event };
        (line, subject).hash(&mut self.hasher);
        let lines = self.of_subjects.entry(subject).or_default();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Notes that a caller asks for something.
    pub(crate) fn asks(
        &mut self,
        moment: Moment,
        of: (ProcessId, Subject),
        question: Question,
    ) -> Operation {
        let Question { operation, permits, tier, .. } = question;
        self.note(moment, Some(of.0), Some(of.1), Event::Asks { operation, permits, tier });
        self.auditor.uses(of.1, tier);
        let begun = self.auditor.charges.begins(of, moment.now);
        Operation { begun, asked: moment, question }
    }

    /// Notes a decision on permits, which are charged for `delay` later. Returns the admission.
    pub(crate) fn decides(
        &mut self,
        moment: Moment,
        operation: &Operation,
        (source, permits): (Source, Option<u64>),
        delay: Micros,
    ) -> Option<Admission> {
        self.decisions += 1;
        let of = operation.begun.of;
        let event = match permits {
            Some(permits) => Event::Admitted { permits, source, delay },
            None => Event::Refused { source },
        };
        self.note(moment, Some(of.0), Some(of.1), event);
        let (asked, is_charge) = (operation.asked, operation.question.operation == "charge");
        let granted = Granted { permits: permits?, source, asked, delay, is_charge };
        let admission = self.auditor.admitted(of, granted, moment);
        self.report(moment);
        admission
    }

    /// Notes how an operation has ended.
    pub(crate) fn ends(&mut self, moment: Moment, operation: &Operation, end: End<'_>) {
        let Operation { begun, asked, question } = *operation;
        let event = match end {
            End::Answered { .. } => Event::Ends,
            End::Failed(error) => Event::Fails { kind: error.kind() },
            End::Left => Event::Leaves,
        };
        self.note(moment, Some(begun.of.0), Some(begun.of.1), event);
        let is_list = question.operation == "decide";
        self.auditor.ended(begun.of.1, asked, is_list, moment);
        let changes = match end {
            End::Left => return self.auditor.charges.leaves(begun, moment.now),
            End::Failed(error) if error.kind() == ErrorKind::Unavailable => (0, 0),
            End::Answered { is_charged: true } => (1, 1),
            End::Failed(_) | End::Answered { .. } => (0, 1),
        };
        let changes = question.is_direct.then_some(changes);
        if let Some(message) = self.auditor.charges.ends(begun, moment.now, changes) {
            self.violated(moment, Some(begun.of.1), message);
        }
    }

    /// Notes how many of these permits came back, unless that is not known.
    pub(crate) fn refunded(
        &mut self,
        moment: Moment,
        operation: &Operation,
        (admission, permits): (Admission, u64),
        returned: u64,
    ) {
        let (process, subject) = operation.begun.of;
        self.note(moment, Some(process), Some(subject), Event::Refunded { permits: returned });
        self.auditor.stay_charged(admission, permits.saturating_sub(returned));
        self.report(moment);
    }

    /// Notes that a server has executed a call.
    pub(crate) fn executed(
        &mut self,
        moment: Moment,
        (process, call, sent): (ProcessId, u64, Micros),
        executed: &Executed,
    ) {
        // Each limit of a policy may have a key of its own.
        let mut subjects: BTreeMap<Subject, bool> = BTreeMap::new();
        for (key, is_changed) in &executed.keys {
            if let Some(subject) = self.stored.get(key) {
                *subjects.entry(*subject).or_default() |= is_changed;
            }
        }
        let script = executed.script;
        for (subject, is_changed) in subjects {
            let event = Event::Executed { call, script, is_changed };
            self.note(moment, Some(process), Some(subject), event);
            if script == "reset" {
                self.auditor.voids(Some(subject), moment, 0);
            }
            if is_changed
                && let Some(message) =
                    self.auditor.charges.changed((process, subject), sent, moment.now)
            {
                self.violated(moment, Some(subject), message);
            }
        }
        self.check_in_flight(moment);
    }

    /// Checks how many requests are in flight.
    pub(crate) fn check_in_flight(&mut self, moment: Moment) {
        if let Some((subject, message)) = self.auditor.in_flight.over(moment.now) {
            self.violated(moment, Some(subject), &message);
        }
    }

    /// Reports what the auditor has found.
    fn report(&mut self, moment: Moment) {
        for (subject, message) in mem::take(&mut self.auditor.found) {
            self.violated(moment, Some(subject), &message);
        }
    }

    /// Reports a violation.
    pub(crate) fn violated(&mut self, moment: Moment, subject: Option<Subject>, message: &str) {
        let name = subject.and_then(|subject| self.names.get(&subject));
        let message = format!("{}: {message}", name.map_or("all keys", String::as_str));
        let events = self.last(subject);
        self.violations.push(Violation { time: moment.now, message, events });
    }

    /// Returns the last events of a key and those of all keys, in words.
    fn last(&self, subject: Option<Subject>) -> Vec<String> {
        let of = |subject| self.of_subjects.get(&subject).into_iter().flatten();
        let mut lines: Vec<&Line> =
            of(None).chain(subject.into_iter().flat_map(|it| of(Some(it)))).collect();
        lines.sort_by_key(|line| line.number);
        let last = lines.split_off(lines.len().saturating_sub(KEPT));
        let words = |line: &Line| {
            let process = line.process.map_or(String::new(), |process| format!("{process} "));
            format!("{:>12} us  {process}{}", line.time, line.event)
        };
        last.into_iter().map(words).collect()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}
