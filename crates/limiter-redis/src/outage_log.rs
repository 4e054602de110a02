//! One log line for each cause by which the store does not execute operations, and one when it does again.

use std::{
    collections::HashMap,
    fmt::Display,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{Clock, Timestamp};

use crate::client::faults::Fault;

/// Logs why the store does not execute operations, at WARN, and when that ends, at INFO.
pub(crate) struct OutageLog {
    clock: Arc<dyn Clock>,
    failing: AtomicBool,
    dampers: Mutex<HashMap<Cause, Damper>>,
}

/// Why the store did not execute an operation, each logged by itself: the node of the cluster, and the fault, if the
/// operation has become a call.
type Cause = (Option<Arc<str>>, Option<Fault>);

impl OutageLog {
    /// The shortest time between two log lines of one kind.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, failing: AtomicBool::new(false), dampers: Mutex::default() }
    }

    /// Notes that an operation under `policy` has failed.
    pub(crate) fn begins(&self, cause: Cause, policy: &str, why: &dyn Display) {
        let (node, fault) = cause.clone();
        let mut dampers = self.dampers.lock().unwrap_or_else(PoisonError::into_inner);
        self.failing.store(true, Relaxed);
        // A call is not sent because others failed, for example while the circuit breaker is open.
        let is_known = |(other, damper): (&Cause, &Damper)| {
            *other != cause && other.0 == node && damper.failing
        };
        if fault == Some(Fault::NotSent) && dampers.iter().any(is_known) {
            return;
        }
        let is_logged = dampers.entry(cause).or_default().begins(self.clock.now());
        // A subscriber may check a limiter itself.
        drop(dampers);
        if is_logged {
            let node = node.as_deref();
            tracing::warn!(
                policy,
                node,
                "no decision by the store, so requests get errors, or are decided without it: {why}"
            );
        }
    }

    /// Notes that the store has executed an operation under `policy`.
    pub(crate) fn ends(&self, policy: &str, node: impl FnOnce() -> Option<Arc<str>>) {
        // Reads first, so that a check during normal operation writes nothing that threads share.
        if !self.failing.load(Relaxed) {
            return;
        }
        let node = node();
        let mut dampers = self.dampers.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut was_logged, mut is_failing) = (false, false);
        for ((failed, _), damper) in &mut *dampers {
            // A node that was not known has decided as well.
            if failed.is_none() || *failed == node {
                was_logged |= damper.ends();
            } else {
                is_failing |= damper.failing;
            }
        }
        self.failing.store(is_failing, Relaxed);
        drop(dampers);
        if was_logged {
            let node = node.as_deref();
            tracing::info!(policy, node, "the store decides again");
        }
    }
}

/// Decides which outages are logged: the first at once, and then at most one every [`OutageLog::INTERVAL`].
///
/// Both the begin and the end of an outage are logged, or neither.
#[derive(Debug, Default)]
struct Damper {
    logged_at: Option<Timestamp>,
    /// Whether there is an outage.
    failing: bool,
    /// Whether its begin was logged.
    logged: bool,
}

impl Damper {
    /// Notes that there is an outage, and returns whether to log it now. To be called again while it lasts.
    fn begins(&mut self, now: Timestamp) -> bool {
        self.failing = true;
        let is_recent = |at: Timestamp| now.saturating_since(at) < OutageLog::INTERVAL;
        if self.logged || self.logged_at.is_some_and(is_recent) {
            return false;
        }
        (self.logged, self.logged_at) = (true, Some(now));
        true
    }

    /// Notes that the outage is over, and returns whether to log it.
    fn ends(&mut self) -> bool {
        self.failing = false;
        mem::take(&mut self.logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_in_quick_succession_are_one_line_every_interval() {
        let mut damper = Damper::default();
        let start = Timestamp::ZERO;
        let mut lines = 0;
        for outage in 0..1_000_u32 {
            let now = start.saturating_add(Duration::from_millis(20) * outage);
            lines += u32::from(damper.begins(now));
            lines += u32::from(damper.begins(now));
            lines += u32::from(damper.ends());
        }
        // Twenty seconds: two begins, two ends.
        assert_eq!(lines, 4);
    }

    #[test]
    fn a_long_outage_after_a_short_one_is_logged_later() {
        let mut damper = Damper::default();
        let start = Timestamp::ZERO;
        assert!(damper.begins(start));
        assert!(damper.ends());
        let after = |seconds| start.saturating_add(Duration::from_secs(seconds));
        assert!(!damper.begins(after(1)));
        assert!(!damper.ends());
        assert!(!damper.begins(after(2)));
        assert!(!damper.begins(after(9)));
        assert!(damper.begins(after(10)));
        assert!(!damper.begins(after(11)));
        assert!(damper.ends());
        assert!(!damper.ends());
    }
}
