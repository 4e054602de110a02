//! What is known of services.

use super::Records;
use crate::{
    auditor::{Auditor, Part},
    server::Executed,
    vocabulary::{Moment, Subject},
};

impl Records {
    /// Lets the auditor note what a service does, and reports what it finds.
    pub(crate) fn service<T>(&mut self, moment: Moment, note: impl FnOnce(&mut Auditor) -> T) -> T {
        let noted = note(&mut self.auditor);
        self.report(moment);
        noted
    }

    /// Notes that the server has a key for strikes or blocks of a subject.
    pub(crate) fn is_of_blocks(&mut self, key: Vec<u8>, subject: Subject, part: Part) {
        self.of_blocks.insert(key, (subject, part));
    }

    /// Notes that a script has changed keys for strikes or blocks. The debts of the keys take so long to recover.
    pub(crate) fn blocks_changed(&mut self, moment: Moment, executed: &Executed) {
        if self.of_blocks.is_empty() {
            return;
        }
        let changed = executed.keys.iter().zip(&executed.recover_in);
        for ((key, _), recovers_in) in changed.filter(|((_, is_changed), _)| *is_changed) {
            if let Some((subject, part)) = self.of_blocks.get(key).copied() {
                let at = moment.passed(self.auditor.node(subject));
                let of = (at, *recovers_in);
                self.auditor.block_changed(subject, part, executed.script, of);
            }
        }
        self.report(moment);
    }
}
