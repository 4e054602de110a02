//! What is known of services.

use super::Records;
use crate::{
    auditor::{Auditor, Part},
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

    /// Notes that a script has changed keys for strikes or blocks.
    pub(super) fn blocks_changed(
        &mut self,
        moment: Moment,
        script: &str,
        keys: &[(Vec<u8>, bool)],
    ) {
        if self.of_blocks.is_empty() {
            return;
        }
        for (key, _) in keys.iter().filter(|(_, is_changed)| *is_changed) {
            if let Some((subject, part)) = self.of_blocks.get(key).copied() {
                let at = moment.passed(self.auditor.node(subject));
                self.auditor.block_changed(subject, part, script, at);
            }
        }
    }
}
