//! What is known of a run: its log, its auditor and its figures.

mod in_flight;
mod operation;

use std::collections::{BTreeMap, BTreeSet};

use limiter_core::{ErrorKind, Source};

pub(crate) use self::operation::{Answer, End, Operation, Question};
use crate::{
    auditor::{self, Account, Admission, Auditor, Begun, Decided, Permits, Violation},
    fault::Fault,
    log::{Event, Log},
    vocabulary::{Moment, ProcessId, Subject},
};

/// The records of a run.
#[derive(Debug)]
pub(crate) struct Records {
    log: Log,
    pub(crate) auditor: Auditor,
    /// The names of all keys, for messages.
    names: Vec<String>,
    /// The keys as the server has them.
    stored: BTreeMap<Vec<u8>, Subject>,
    /// How many calls each process has sent about each key.
    pub(crate) calls: BTreeMap<(ProcessId, Subject), u64>,
    pub(crate) decisions: u64,
    pub(crate) violations: Vec<Violation>,
}

impl Records {
    pub(crate) fn new(names: Vec<String>, auditor: Auditor) -> Self {
        Self {
            log: Log::new(names.len()),
            auditor,
            names,
            stored: BTreeMap::new(),
            calls: BTreeMap::new(),
            decisions: 0,
            violations: Vec::new(),
        }
    }

    /// Notes which keys a node has for a subject.
    pub(crate) fn is_stored_at(&mut self, subject: Subject, node: usize, keys: Vec<Vec<u8>>) {
        self.auditor.is_on(subject, node);
        self.stored.extend(keys.into_iter().map(|key| (key, subject)));
    }

    /// Notes that a caller asks for something.
    pub(crate) fn asks(
        &mut self,
        moment: Moment,
        process: ProcessId,
        subject: Subject,
        question: Question,
    ) -> Operation {
        let Question { operation, permits, tier, .. } = question;
        let event = Event::Asked { operation, permits, tier };
        self.log.add(moment.now, Some(process), Some(subject), event);
        if operation == "reset" {
            let at = moment.passed(self.auditor.node(subject));
            self.auditor.resets_share(process, subject, at);
        }
        self.auditor.uses((process, subject), tier, moment.passed(self.auditor.node(subject)));
        let begun = self.auditor.begins(process, subject, moment.now);
        Operation { begun, asked: moment, question }
    }

    /// Notes how an operation has ended.
    pub(crate) fn ends(&mut self, moment: Moment, operation: &Operation, end: End<'_>) {
        let Operation { begun, question, .. } = *operation;
        let Question { is_direct, tier, .. } = question;
        let event = match end {
            End::Answered => Event::Ended,
            End::Failed(error) => Event::Failed { kind: error.kind() },
            End::Left => Event::Left,
        };
        self.log.add(moment.now, Some(begun.process), Some(begun.subject), event);
        // Calls of leases are sent apart from operations.
        let may_follow = !is_direct || !matches!(end, End::Answered);
        let at = moment.passed(self.auditor.node(begun.subject));
        self.auditor.used((begun.process, begun.subject), tier, at, may_follow);
        let changes = match end {
            End::Left => return self.auditor.leaves(begun, moment.now),
            End::Failed(error) if error.kind() == ErrorKind::Unavailable => 0,
            End::Failed(_) | End::Answered => 1,
        };
        self.auditor.ends(begun, moment.now, is_direct.then_some(changes));
        self.report(moment);
    }

    /// Notes a decision, whose permits are charged for `delay` later. Returns the admission, if the auditor counts it.
    pub(crate) fn decides(
        &mut self,
        moment: Moment,
        operation: &Operation,
        answer: Answer,
    ) -> Option<Admission> {
        let Answer { source, permits, delay, of_request, .. } = answer;
        let Operation { begun: Begun { process, subject, .. }, asked, .. } = *operation;
        if source == Source::State {
            self.decided_by_store(moment, operation, answer);
        }
        self.decisions += 1;
        let event = match permits {
            Some(permits) => Event::Admitted { permits, source, delay },
            None => Event::Refused { source },
        };
        self.log.add(moment.now, Some(process), Some(subject), event);
        let share_of = (source == Source::Local).then_some(process);
        let account = Account { subject, share_of };
        let node = self.auditor.node(subject);
        let (from, to) = (asked.passed(node), moment.passed(node));
        let earliest = match source {
            Source::Lease => self.auditor.suspensions.earliest_of_lease(process, asked, node),
            _ => from,
        };
        // A waiter sleeps by its own clock until the server's moment, and may be early by the difference of their rates.
        let early = (to - from) / 1_000;
        let permits = Permits {
            number: permits?,
            delay,
            of_request: of_request.map(|began| began.passed(node)),
        };
        let within = (earliest + delay, to + early + delay);
        let id = self.auditor.admitted(account, permits, within);
        self.report(moment);
        id
    }

    /// Lets the auditor compare a decision of the store with its calls and with refusals before it.
    fn decided_by_store(&mut self, moment: Moment, operation: &Operation, answer: Answer) {
        let Operation { begun: Begun { subject, .. }, asked, question, .. } = *operation;
        let is_compared = match question.operation {
            "check" | "probe" => true,
            "reserve" => answer.permits.is_some(),
            _ => false,
        };
        if question.is_direct && is_compared {
            let node = self.auditor.node(subject);
            let (asked, answered) = (asked.passed(node), moment.passed(node));
            let answer = match answer.permits {
                Some(_) => auditor::Answer::Admitted { delay: answer.delay },
                None => auditor::Answer::Refused { wait: answer.wait },
            };
            let Question { permits: cost, tier, .. } = question;
            self.auditor.decided(subject, Decided { cost, tier, asked, answered, answer });
        }
    }

    /// Notes that permits are refunded, and returns how many of them don't count meanwhile.
    pub(crate) fn refunds(
        &mut self,
        moment: Moment,
        operation: &Operation,
        admission: Admission,
        permits: u64,
    ) -> u64 {
        let Begun { process, subject, .. } = operation.begun;
        self.log.add(moment.now, Some(process), Some(subject), Event::Refunds { permits });
        self.auditor.refunds(admission, permits, moment.passed(self.auditor.node(subject)))
    }

    /// Notes how many of these permits came back, `None` if that is not known.
    pub(crate) fn refunded(
        &mut self,
        moment: Moment,
        operation: &Operation,
        (admission, permits): (Admission, u64),
        returned: Option<u64>,
    ) {
        let Begun { process, subject, .. } = operation.begun;
        let Some(returned) = returned else { return };
        let event = Event::Refunded { permits: returned };
        self.log.add(moment.now, Some(process), Some(subject), event);
        self.auditor.stay_charged(admission, permits.saturating_sub(returned));
        self.report(moment);
    }

    /// Notes that a call is sent.
    pub(crate) fn sent(
        &mut self,
        moment: Moment,
        process: ProcessId,
        call: u64,
        words: &[Vec<u8>],
    ) {
        // The states of a key may have several names.
        let subjects = words.iter().filter_map(|word| self.stored.get(word).copied());
        for subject in subjects.collect::<BTreeSet<_>>() {
            self.log.add(moment.now, Some(process), Some(subject), Event::Sent { call });
            *self.calls.entry((process, subject)).or_default() += 1;
        }
    }

    /// Notes that a call was executed.
    pub(crate) fn executed(
        &mut self,
        moment: Moment,
        (process, call, sent): (ProcessId, u64, u64),
        script: &'static str,
        keys: &[(Vec<u8>, bool)],
    ) {
        // Each limit of a policy has a key of its own.
        let mut subjects: BTreeMap<Subject, bool> = BTreeMap::new();
        for (key, is_changed) in keys {
            if let Some(subject) = self.stored.get(key) {
                *subjects.entry(*subject).or_default() |= is_changed;
            }
        }
        for (subject, is_changed) in subjects {
            let event = Event::Executed { call, script, is_changed };
            self.log.add(moment.now, Some(process), Some(subject), event);
            if script == "reset" {
                self.auditor.was_reset(subject, moment.passed(self.auditor.node(subject)));
            }
            if is_changed {
                self.auditor.changed(process, subject, sent, moment);
            }
        }
        self.report(moment);
    }

    /// Notes a fault, which lasts until a time.
    pub(crate) fn fault(
        &mut self,
        moment: Moment,
        process: Option<ProcessId>,
        fault: Fault,
        until: u64,
    ) {
        self.log.add(moment.now, process, None, Event::Fault { fault, until });
    }

    /// Reports what the auditor has found.
    fn report(&mut self, moment: Moment) {
        for (subject, message) in self.auditor.take_found() {
            self.violated(moment, subject, &message);
        }
    }

    /// Reports a violation.
    pub(crate) fn violated(&mut self, moment: Moment, subject: Subject, message: &str) {
        let name = self.names.get(subject.0).map_or("all keys", String::as_str);
        let message = format!("{name}: {message}");
        let events = self.log.last(subject);
        self.violations.push(Violation { time: moment.now, message, events });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.log.hash()
    }
}
