//! Bounds how often an outage that comes and goes is logged.

use std::time::Duration;

use limiter_core::Timestamp;

/// Decides which outages are logged: the first at once, and then at most one every [`Damper::INTERVAL`].
///
/// Both the begin and the end of an outage are logged, or neither.
#[derive(Debug, Default)]
pub(crate) struct Damper {
    logged_at: Option<Timestamp>,
    /// Whether there is an outage.
    failing: bool,
    /// Whether its begin was logged.
    logged: bool,
}

impl Damper {
    /// The shortest time between the log lines of two outages.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

    /// Notes that there is an outage, and returns whether to log it now. To be called again while it lasts.
    pub(crate) fn begins(&mut self, now: Timestamp) -> bool {
        self.failing = true;
        let is_recent = |at: Timestamp| now.saturating_since(at) < Self::INTERVAL;
        if self.logged || self.logged_at.is_some_and(is_recent) {
            return false;
        }
        (self.logged, self.logged_at) = (true, Some(now));
        true
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
