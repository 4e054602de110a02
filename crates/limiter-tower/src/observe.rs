//! What a layer reports: events, decisions, metrics and log lines.

pub(crate) mod log;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod watch;

use std::time::Duration;

use limiter_core::{Decision, Error, Key, Occupancy, Policy};

pub use crate::decisions::{Decisions, InFlightDecision, PolicyDecision};
use crate::key::Head;

/// What one rule did with one request, or what became of a permit of one in flight.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The rule, by the name that its policy had at first, or by that of its limiter of requests in flight.
    pub rule: &'a str,
    /// The policy that applied, or the rule's own if none was asked about. `None` of a limit on requests in flight.
    pub policy: Option<&'a Policy>,
    /// Where the limiter's states are: see [`Limiter::store`](limiter_core::Limiter::store).
    pub store: &'static str,
    /// What became of the request.
    pub outcome: Outcome,
    /// The key under which it was counted. `None` if the limiter was not asked. `Debug` hides a secret one.
    pub key: Option<&'a Key<'a>>,
    /// The decision. `None` if the limiter was not asked, or could not decide. Its source reports that a
    /// table in memory was [full](limiter_core::Source::FullTable) for the key.
    pub decision: Option<&'a Decision>,
    /// What a limiter of requests in flight answered, if it was asked and could decide.
    pub occupancy: Option<Occupancy>,
    /// The failure of the store, if it could not decide.
    pub error: Option<&'a Error>,
    /// How long the limiter took to decide, without a delay. `None` if it was not asked.
    pub elapsed: Option<Duration>,
    /// The request. [Empty](Head::empty) if there is none, as for what becomes of a permit.
    pub head: Head<'a>,
}

/// What became of a request under one rule, or of its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was admitted at once.
    Allowed,
    /// It was admitted after a delay.
    Delayed,
    /// It was refused.
    Denied,
    /// It was refused, because its key is blocked.
    Blocked,
    /// It would have been refused, but the rule is a shadow for its key.
    ShadowDenied,
    /// It was not counted: the layer skips it or is switched off, or it has no key.
    Bypassed,
    /// It was rejected, because it has no key or the limiter is not set up to decide.
    Rejected,
    /// It was forwarded although the store failed, unless another rule has refused it.
    ErrorAllowed,
    /// It was refused because the store failed.
    ErrorDenied,
    /// Its permit does not count any more, although it goes on: the store could not be reached for too long.
    PermitLost,
    /// Its permit was given back before it had ended: see [`InFlightRule::max_age`](crate::InFlightRule::max_age).
    HeldTooLong,
    /// Its response has switched protocols, and no handler [holds](crate::in_flight::RequestPermit::hold) the permit, so
    /// that it was given back while the new protocol is spoken.
    UpgradeNotHeld,
}

impl Outcome {
    /// How many there are.
    #[cfg(feature = "metrics")]
    pub(crate) const NUMBER: usize = Self::UpgradeNotHeld as usize + 1;

    /// Returns whether the request was not forwarded because of it.
    pub(crate) const fn is_refusal(self) -> bool {
        match self {
            Self::Denied | Self::Blocked | Self::Rejected | Self::ErrorDenied => true,
            Self::Allowed
            | Self::Delayed
            | Self::ShadowDenied
            | Self::Bypassed
            | Self::ErrorAllowed
            | Self::PermitLost
            | Self::HeldTooLong
            | Self::UpgradeNotHeld => false,
        }
    }

    /// Returns the outcome as metrics name it, such as `shadow_denied`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Delayed => "delayed",
            Self::Denied => "denied",
            Self::Blocked => "blocked",
            Self::ShadowDenied => "shadow_denied",
            Self::Bypassed => "bypassed",
            Self::Rejected => "rejected",
            Self::ErrorAllowed => "error_allowed",
            Self::ErrorDenied => "error_denied",
            Self::PermitLost => "lost",
            Self::HeldTooLong => "held_too_long",
            Self::UpgradeNotHeld => "upgrade_not_held",
        }
    }

    /// Returns whether it is of a permit, and not of a request.
    #[cfg(feature = "metrics")]
    pub(crate) const fn is_of_permit(self) -> bool {
        matches!(self, Self::PermitLost | Self::HeldTooLong | Self::UpgradeNotHeld)
    }
}

#[cfg(test)]
mod tests {
    use std::iter::successors;

    use super::Outcome;

    /// Returns all outcomes. A new one fails to compile here.
    fn all() -> impl Iterator<Item = Outcome> {
        successors(Some(Outcome::Allowed), |last| match last {
            Outcome::Allowed => Some(Outcome::Delayed),
            Outcome::Delayed => Some(Outcome::Denied),
            Outcome::Denied => Some(Outcome::Blocked),
            Outcome::Blocked => Some(Outcome::ShadowDenied),
            Outcome::ShadowDenied => Some(Outcome::Bypassed),
            Outcome::Bypassed => Some(Outcome::Rejected),
            Outcome::Rejected => Some(Outcome::ErrorAllowed),
            Outcome::ErrorAllowed => Some(Outcome::ErrorDenied),
            Outcome::ErrorDenied => Some(Outcome::PermitLost),
            Outcome::PermitLost => Some(Outcome::HeldTooLong),
            Outcome::HeldTooLong => Some(Outcome::UpgradeNotHeld),
            Outcome::UpgradeNotHeld => None,
        })
    }

    #[test]
    fn the_guide_has_a_row_for_each_outcome() {
        let guide = include_str!("../docs/guide/metrics.md");
        for name in all().map(Outcome::name) {
            assert!(guide.contains(&format!("\n| `{name}` |")), "no row for {name} in metrics.md");
        }
    }

    #[test]
    fn the_guide_has_a_row_for_each_metric() {
        let guide = include_str!("../docs/guide/metrics.md");
        let source = include_str!("observe/metrics.rs");
        let names = source.split('"').filter(|text| text.starts_with("ratelimit_"));
        for name in names {
            assert!(guide.contains(&format!("\n| `{name}` |")), "no row for {name} in metrics.md");
        }
    }
}
