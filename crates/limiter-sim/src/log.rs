//! What happened: a hash over all of it, and the last events of each key in words.

use std::{
    collections::VecDeque,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use limiter_core::{ErrorKind, Source};

use crate::{
    fault::Fault,
    vocabulary::{Micros, ProcessId, Subject},
};

/// How many events of a key are kept.
const KEPT: usize = 50;

/// Something that happened to a key, or to all.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Event {
    Asked { operation: &'static str, permits: u64, tier: usize },
    Admitted { permits: u64, source: Source, delay: Micros },
    Refused { source: Source },
    Failed { kind: ErrorKind },
    Left,
    Ended,
    Lost,
    Refunds { permits: u64 },
    Refunded { permits: u64 },
    Sent { call: u64 },
    Executed { call: u64, script: &'static str, is_changed: bool },
    Fault { fault: Fault, until: Micros },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { operation, permits, tier: 0 } => {
                write!(f, "asks: {operation} {permits}")
            }
            Self::Asked { operation, permits, tier } => {
                write!(f, "asks: {operation} {permits} by tier {tier}")
            }
            Self::Admitted { permits, source, delay: 0 } => {
                write!(f, "is admitted {permits} by {source:?}")
            }
            Self::Admitted { permits, source, delay } => {
                write!(f, "is admitted {permits} by {source:?}, in {delay} us")
            }
            Self::Refused { source } => write!(f, "is refused by {source:?}"),
            Self::Failed { kind } => write!(f, "fails: {kind:?}"),
            Self::Left => f.write_str("leaves without an answer"),
            Self::Ended => f.write_str("has its answer"),
            Self::Lost => f.write_str("has lost its permit"),
            Self::Refunds { permits } => write!(f, "refunds {permits}"),
            Self::Refunded { permits } => write!(f, "gets {permits} back"),
            Self::Sent { call } => write!(f, "sends call {call}"),
            Self::Executed { call, script, is_changed } => {
                let charged = if *is_changed { "changes the state" } else { "changes nothing" };
                write!(f, "call {call} is executed: {script} {charged}")
            }
            Self::Fault { fault, until: 0 } => write!(f, "FAULT: {fault}"),
            Self::Fault { fault, until } => write!(f, "FAULT: {fault} until {until} us"),
        }
    }
}

#[derive(Clone, Copy, Debug, Hash)]
struct Line {
    number: u64,
    time: Micros,
    process: Option<ProcessId>,
    event: Event,
}

/// The log of a run.
#[derive(Debug)]
pub(crate) struct Log {
    hasher: DefaultHasher,
    lines: u64,
    of_subjects: Vec<VecDeque<Line>>,
    of_all: VecDeque<Line>,
}

impl Log {
    pub(crate) fn new(subjects: usize) -> Self {
        let of_subjects = vec![VecDeque::new(); subjects];
        Self { hasher: DefaultHasher::new(), lines: 0, of_subjects, of_all: VecDeque::new() }
    }

    /// Adds an event of a key, or of all keys.
    pub(crate) fn add(
        &mut self,
        time: Micros,
        process: Option<ProcessId>,
        subject: Option<Subject>,
        event: Event,
    ) {
        self.lines += 1;
        let line = Line { number: self.lines, time, process, event };
        (line, subject).hash(&mut self.hasher);
        let lines = match subject {
            Some(Subject(index)) => self.of_subjects.get_mut(index),
            None => Some(&mut self.of_all),
        };
        let Some(lines) = lines else { return };
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns a hash over all events.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Returns the last events of a key and those of all keys, in words.
    pub(crate) fn last(&self, Subject(index): Subject) -> Vec<String> {
        let of_subject = self.of_subjects.get(index).into_iter().flatten();
        let mut lines: Vec<&Line> = of_subject.chain(&self.of_all).collect();
        lines.sort_by_key(|line| line.number);
        let last = lines.split_off(lines.len().saturating_sub(KEPT));
        let words = |line: &Line| {
            let process = line.process.map_or(String::new(), |process| format!("{process} "));
            format!("{:>12} us  {process}{}", line.time, line.event)
        };
        last.into_iter().map(words).collect()
    }
}
