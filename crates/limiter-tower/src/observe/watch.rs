//! When an outage of the store begins and when it is over, so that each is reported once.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Without an error for so long, the store counts as recovered. A store that fails now and then
/// would otherwise be reported with each request.
const QUIET: Duration = Duration::from_secs(1);

/// Whether the last calls of the store failed.
#[derive(Debug, Default)]
pub(crate) struct StoreWatch {
    /// When it last failed, in milliseconds since `START` and one more; zero if it has recovered.
    last_failure: AtomicU64,
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl StoreWatch {
    /// Notes an error, and returns whether an outage begins with it.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        self.last_failure.swap(millis(now) + 1, Ordering::Relaxed) == 0
    }

    /// Notes an answer, and returns whether an outage is over with it.
    pub(crate) fn answered(&self, now: impl FnOnce() -> Instant) -> bool {
        let last = self.last_failure.load(Ordering::Relaxed);
        // No request reads the clock or writes to what all share while all is well.
        last != 0
            && Duration::from_millis((millis(now()) + 1).saturating_sub(last)) >= QUIET
            && self
                .last_failure
                .compare_exchange(last, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

fn millis(now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(*START).as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_once_and_is_over_once_it_was_quiet() {
        let (watch, start) = (StoreWatch::default(), *START);
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(!watch.answered(|| at(0)));
        assert!(watch.failed(at(0)));
        for now in 1..100 {
            assert!(!watch.failed(at(now * 10)));
            assert!(!watch.answered(|| at(now * 10)));
        }
        assert!(!watch.answered(|| at(1_989)));
        assert!(watch.answered(|| at(1_990)));
        assert!(!watch.answered(|| at(5_000)));
        assert!(watch.failed(at(5_000)));
    }

    #[test]
    fn a_store_that_is_well_is_not_timed() {
        assert!(!StoreWatch::default().answered(|| panic!("read the clock")));
    }
}
