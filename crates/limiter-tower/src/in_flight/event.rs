//! What an observer of limits on requests in flight receives.

use std::time::Duration;

use limiter_core::{Error, Key, Occupancy};

use crate::observe::Outcome;

/// What a rule did with a request, or what became of a permit: see [`InFlightRule::observe`](crate::InFlightRule::observe) and
/// [`RateLimitLayer::observe_in_flight`](crate::RateLimitLayer::observe_in_flight).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InFlightEvent<'a> {
    /// The name of the rule.
    pub rule: &'a str,
    /// Where the limiter's states are: see [`InFlightLimiter::store`](limiter_core::InFlightLimiter::store).
    pub store: &'static str,
    /// What happened.
    pub kind: InFlightEventKind,
    /// The key. `None` if the limiter was not asked. `Debug` hides a secret one.
    pub key: Option<&'a Key<'a>>,
    /// What the limiter answered, if it was asked and could decide.
    pub occupancy: Option<Occupancy>,
    /// The failure of the store, if it could not decide.
    pub error: Option<&'a Error>,
    /// How long the limiter took to decide. `None` if it was not asked for a permit.
    pub elapsed: Option<Duration>,
}

/// The kind of an [`InFlightEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InFlightEventKind {
    /// A request, and what became of it: never delayed or blocked.
    Request(Outcome),
    /// A permit does not count any more, although the request goes on: the store could not be reached for too long.
    Lost,
    /// A permit was given back before the request had ended: see [`InFlightRule::max_hold`](crate::InFlightRule::max_hold).
    HeldTooLong,
    /// A response switched protocols, and no handler [holds](super::RequestPermit::hold) the permit, so that it was given
    /// back while the new protocol is spoken.
    UpgradeNotHeld,
}

impl InFlightEventKind {
    /// Returns the kind as metrics name it, such as `lost`. That of a request is its outcome's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(outcome) => outcome.name(),
            Self::Lost => "lost",
            Self::HeldTooLong => "held_too_long",
            Self::UpgradeNotHeld => "upgrade_not_held",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::successors;

    use super::InFlightEventKind as Kind;

    /// Returns the kinds that are about permits. A new one fails to compile here.
    fn of_permits() -> impl Iterator<Item = Kind> {
        successors(Some(Kind::Lost), |last| match last {
            Kind::Lost => Some(Kind::HeldTooLong),
            Kind::HeldTooLong => Some(Kind::UpgradeNotHeld),
            Kind::UpgradeNotHeld | Kind::Request(_) => None,
        })
    }

    #[test]
    fn the_guide_has_a_row_for_each_event() {
        let guide = include_str!("../../docs/guide/metrics.md");
        for name in of_permits().map(Kind::name) {
            assert!(guide.contains(&format!("\n| `{name}` |")), "no row for {name} in metrics.md");
        }
    }
}
