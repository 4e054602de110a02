//! The events that have not happened yet.

use std::collections::BTreeMap;

use crate::vocabulary::Micros;

/// What happens at an event.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// Events, by their time and then by the order in which they were added.
#[derive(Default)]
pub(super) struct Queue {
    events: BTreeMap<(Micros, u64), Action>,
    /// How many events were added.
    added: u64,
}

impl Queue {
    pub(super) fn push(&mut self, time: Micros, action: Action) {
        self.added += 1;
        self.events.insert((time, self.added), action);
    }

    /// Returns the next event if it is not after `end`.
    pub(super) fn pop_until(&mut self, end: Micros) -> Option<(Micros, Action)> {
        let next = self.events.first_entry().filter(|event| event.key().0 <= end)?;
        let ((time, _), action) = next.remove_entry();
        Some((time, action))
    }
}
