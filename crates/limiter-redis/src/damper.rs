//! Bounds how often an outage that comes and goes is logged.

use std::time::Duration;

use limiter_core::Timestamp;

/// Decides which outages are logged: the first at once, and then at most one every
/// [`Damper::INTERVAL`], with the number of those in between.
///
/// Both the begin and the end of an outage are logged, or neither.
#[derive(Debug, Default)]
pub(crate) struct Damper {
    logged_at: Option<Timestamp>,
    /// Whether there is an outage.
    failing: bool,
    /// Whether its begin was logged.
    logged: bool,
    /// Outages that were not logged, since the last one that was.
    skipped: u64,
}

impl Damper {
    /// The shortest time between the log lines of two outages.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

    /// Notes that there is an outage, and returns the end of its log line if it is to be logged now:
    /// how many outages before it were not. To be called again while the outage lasts.
    pub(crate) fn begins(&mut self, now: Timestamp) -> Option<String> {
        let is_new = !std::mem::replace(&mut self.failing, true);
        if self.logged {
            return None;
        }
        let is_recent = |at: Timestamp| now.saturating_since(at) < Self::INTERVAL;
        if self.logged_at.is_some_and(is_recent) {
            self.skipped += u64::from(is_new);
            return None;
        }
        // A long outage that was counted as skipped is now the one that is logged.
        let skipped = std::mem::take(&mut self.skipped).saturating_sub(u64::from(!is_new));
        (self.logged, self.logged_at) = (true, Some(now));
        Some(match skipped {
            0 => String::new(),
            1 => " (1 outage before this one was not logged)".to_owned(),
            number => format!(" ({number} outages before this one were not logged)"),
        })
    }

    pub(crate) const fn is_failing(&self) -> bool {
        self.failing
    }

    /// Notes that the outage is over, and returns whether to log it.
    pub(crate) fn ends(&mut self) -> bool {
        self.failing = false;
        std::mem::take(&mut self.logged)
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
            lines += u32::from(damper.begins(now).is_some());
            lines += u32::from(damper.begins(now).is_some());
            lines += u32::from(damper.ends());
        }
        // Twenty seconds: two begins, two ends.
        assert_eq!(lines, 4);
    }

    #[test]
    fn a_long_outage_after_a_short_one_is_logged_later() {
        let mut damper = Damper::default();
        let start = Timestamp::ZERO;
        assert_eq!(damper.begins(start).as_deref(), Some(""));
        assert!(damper.ends());
        let after = |seconds| start.saturating_add(Duration::from_secs(seconds));
        assert_eq!(damper.begins(after(1)), None);
        assert!(!damper.ends());
        assert_eq!(damper.begins(after(2)), None);
        assert_eq!(damper.begins(after(9)), None);
        let end = " (1 outage before this one was not logged)";
        assert_eq!(damper.begins(after(10)).as_deref(), Some(end));
        assert_eq!(damper.begins(after(11)), None);
        assert!(damper.ends());
        assert!(!damper.ends());
    }
}
