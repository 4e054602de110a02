//! The subjects that are counted most, in bounded memory.

use std::cmp::Reverse;

/// Counts by subject with a fixed number of counters, by the algorithm *space-saving*.
///
/// With `k` counters and `n` subjects counted so far:
///
/// - a counter's `count` is at least its subject's true count, and above it by at most `overcount`;
/// - `overcount` is at most `n / k`;
/// - each subject that was counted more than `n / k` times has a counter.
#[derive(Debug)]
pub(crate) struct Top {
    /// At most `capacity`.
    counters: Vec<Counter>,
    capacity: usize,
    /// The sum of all counts.
    total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) subject: Box<str>,
    pub(crate) count: u64,
    /// By how much the count may be too high: what the counter had when it changed its subject.
    pub(crate) overcount: u64,
}

impl Top {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { counters: Vec::with_capacity(capacity), capacity, total: 0 }
    }

    /// Counts `subject` once. Without a free counter, the lowest one changes its subject.
    pub(crate) fn add(&mut self, subject: &str) {
        self.total += 1;
        if let Some(own) = self.counters.iter_mut().find(|counter| &*counter.subject == subject) {
            own.count += 1;
        } else if self.counters.len() < self.capacity {
            self.counters.push(Counter { subject: subject.into(), count: 1, overcount: 0 });
        } else if let Some(lowest) = self.counters.iter_mut().min_by_key(|counter| counter.count) {
            let overcount = lowest.count;
            *lowest = Counter { subject: subject.into(), count: overcount + 1, overcount };
        }
    }

    /// Returns the counters, the highest first.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let mut counters = self.counters.clone();
        counters.sort_by_key(|counter| Reverse(counter.count));
        counters
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn few_subjects_are_counted_exactly() {
        let mut top = Top::new(3);
        for subject in ["a", "b", "a", "c", "a", "b"] {
            top.add(subject);
        }
        let counter =
            |subject: &str, count| Counter { subject: subject.into(), count, overcount: 0 };
        assert_eq!(top.counters(), [counter("a", 3), counter("b", 2), counter("c", 1)]);
        assert_eq!(top.total(), 6);
    }

    #[test]
    fn a_new_subject_takes_over_the_lowest_counter() {
        let mut top = Top::new(2);
        for subject in ["a", "a", "b", "c"] {
            top.add(subject);
        }
        let c = Counter { subject: "c".into(), count: 2, overcount: 1 };
        assert!(top.counters().contains(&c), "{top:?}");
    }

    /// Streams by a generator of random numbers, from evenly spread subjects to a few frequent ones,
    /// and one of new subjects only, which is the worst.
    #[test]
    fn every_stream_stays_within_the_error_bound() {
        let mut random: u64 = 1;
        for (capacity, skew) in [(1, 1), (4, 1), (8, 2), (16, 3), (16, 6), (16, 0)] {
            let mut top = Top::new(capacity);
            let mut truth: HashMap<String, u64> = HashMap::new();
            for step in 0..20_000 {
                let mut index = step;
                // The lowest of `skew` random numbers.
                for _ in 0..skew {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    index = index.min(random >> 54);
                }
                let subject = index.to_string();
                top.add(&subject);
                *truth.entry(subject).or_default() += 1;
            }
            check(&top, &truth);
        }
    }

    fn check(top: &Top, truth: &HashMap<String, u64>) {
        let counters = top.counters();
        assert!(counters.len() <= top.capacity);
        let bound = top.total() / top.capacity as u64;
        for Counter { subject, count, overcount } in &counters {
            let true_count = truth[&**subject];
            assert!((count - overcount..=*count).contains(&true_count), "{subject}: {top:?}");
            assert!(*overcount <= bound, "{subject}: {top:?}");
        }
        assert_eq!(counters.iter().map(|counter| counter.count).sum::<u64>(), top.total());
        for (subject, _) in truth.iter().filter(|(_, count)| **count > bound) {
            assert!(counters.iter().any(|counter| *counter.subject == **subject), "{subject}");
        }
    }
}
