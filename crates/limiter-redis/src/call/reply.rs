//! What scripts reply to demands. The header of each script describes its replies.

use std::time::Duration;

use limiter_core::{Decision, Usage};

/// The first number of most replies.
pub(super) const REFUSED: i64 = 0;
pub(super) const ADMITTED: i64 = 1;

/// The wait of a cost that never fits.
const NEVER: i64 = -1;

/// What a script replied to a demand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckReply {
    pub(crate) decision: Decision,
    /// Of an admission for which a receipt was wanted.
    pub(crate) charged: Option<Charged>,
    /// A lease that begins later, which was granted although the demand was refused or brought few permits.
    pub(crate) ahead: Option<Charged>,
}

/// What a refund needs to know of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(crate) permits: u64,
    /// When it was charged, in microseconds of Unix time by the server's clock.
    pub(super) taken_at: i64,
    pub(crate) delay: Duration,
    /// What it left in the state of each limit, from `taken_at`.
    pub(crate) marks: Vec<i64>,
    /// How much later than `taken_at` a lease is charged for, in microseconds. 0 of any other charge.
    pub(super) length: u64,
}

impl CheckReply {
    pub(super) const fn admitted(usage: Usage, charged: Option<Charged>) -> Self {
        Self { decision: Decision::admitted(usage), charged, ahead: None }
    }

    /// Returns a refusal, `None` if the cost does not have to wait.
    pub(super) fn refused(usage: Usage, wait: Option<Duration>) -> Option<Self> {
        let decision = Decision::refused(usage, wait);
        (wait != Some(Duration::ZERO)).then_some(Self { decision, charged: None, ahead: None })
    }
}

/// Reads a wait, for ever as `None`.
pub(super) fn wait(number: i64) -> Option<Option<Duration>> {
    if number == NEVER {
        return Some(None);
    }
    Some(Some(Duration::from_micros(u64::try_from(number).ok()?)))
}
