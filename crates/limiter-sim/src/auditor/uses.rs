//! When which quotas of a key were in use.

use std::collections::BTreeMap;

use crate::vocabulary::{Micros, ProcessId};

/// A stretch of time in which a quota was in use.
#[derive(Clone, Debug)]
struct Use {
    from: Micros,
    to: Micros,
    /// How many operations of each process are under way.
    open: BTreeMap<ProcessId, u32>,
}

/// When which quotas were in use: from when an operation began until all calls for it must have been executed.
///
/// For each quota, its stretches in their order. They don't overlap.
#[derive(Debug, Default)]
pub(crate) struct Uses(Vec<Vec<Use>>);

impl Uses {
    /// Notes that an operation begins.
    pub(crate) fn begin(&mut self, process: ProcessId, quota: usize, at: Micros) {
        while self.0.len() <= quota {
            self.0.push(Vec::new());
        }
        let Some(stretches) = self.0.get_mut(quota) else { return };
        match stretches.last_mut().filter(|it| !it.open.is_empty() || at <= it.to) {
            Some(last) => *last.open.entry(process).or_default() += 1,
            None => {
                let open = BTreeMap::from([(process, 1)]);
                stretches.push(Use { from: at, to: at, open });
            }
        }
    }

    /// Notes that an operation has ended whose calls may be executed until a time.
    pub(crate) fn end(&mut self, process: ProcessId, quota: usize, until: Micros) {
        let last = self.0.get_mut(quota).and_then(|stretches| stretches.last_mut());
        let Some(ended) = last else { return };
        ended.to = ended.to.max(until);
        if let Some(number) = ended.open.get_mut(&process) {
            *number -= 1;
            if *number == 0 {
                ended.open.remove(&process);
            }
        }
    }

    /// Notes that a process was killed, whose calls may be executed until a time.
    pub(crate) fn killed(&mut self, process: ProcessId, until: Micros) {
        for it in self.0.iter_mut().flatten() {
            if it.open.remove(&process).is_some() {
                it.to = it.to.max(until);
            }
        }
    }

    /// Returns the quotas that were in use at some time in a stretch: a bit for each.
    pub(crate) fn within(&self, from: Micros, to: Micros) -> u64 {
        let is_used = |stretches: &Vec<Use>| {
            let begun = stretches.partition_point(|it| it.from <= to);
            let last = begun.checked_sub(1).and_then(|last| stretches.get(last));
            last.is_some_and(|it| !it.open.is_empty() || from <= it.to)
        };
        let used = self.0.iter().enumerate().filter(|(_, stretches)| is_used(stretches));
        used.fold(0, |quotas, (quota, _)| quotas | 1 << quota)
    }

    pub(crate) fn forget(&mut self, before: Micros) {
        for stretches in &mut self.0 {
            stretches.retain(|it| !it.open.is_empty() || it.to >= before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProcessId = ProcessId(1);
    const TWO: ProcessId = ProcessId(2);

    #[test]
    fn a_quota_is_in_use_while_an_operation_is_under_way() {
        let mut uses = Uses::default();
        uses.begin(ONE, 0, 10);
        uses.begin(TWO, 0, 20);
        uses.end(ONE, 0, 30);
        assert_eq!(uses.within(90, 99), 1);
        uses.end(TWO, 0, 100);
        uses.begin(ONE, 2, 200);
        uses.killed(ONE, 300);
        let quotas = [(0, 9), (0, 10), (100, 100), (101, 199), (50, 200), (300, 300), (301, 301)];
        let seen = quotas.map(|(from, to)| uses.within(from, to));
        assert_eq!(seen, [0, 1, 1, 0, 5, 4, 0]);
    }
}
