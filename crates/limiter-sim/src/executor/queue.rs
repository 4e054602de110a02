//! The events that have not happened yet.

use std::{cmp::Ordering, collections::BinaryHeap, fmt};

use crate::vocabulary::Micros;

/// What happens at an event.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// Events, by their time and then by the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: BinaryHeap<Event>,
    /// How many events were added.
    added: u64,
}

struct Event {
    time: Micros,
    number: u64,
    action: Action,
}

impl Queue {
    pub(super) fn push(&mut self, time: Micros, action: Action) {
        self.added += 1;
        self.events.push(Event { time, number: self.added, action });
    }

    /// Returns the next event if it is not after `end`.
    pub(super) fn pop_until(&mut self, end: Micros) -> Option<(Micros, Action)> {
        let is_due = self.events.peek().is_some_and(|event| event.time <= end);
        let event = is_due.then(|| self.events.pop())??;
        Some((event.time, event.action))
    }
}

/// The largest event of a heap is the one that happens first.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {} us", self.number, self.time)
    }
}
