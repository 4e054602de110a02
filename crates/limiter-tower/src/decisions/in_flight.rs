//! What a limit on requests in flight decided about a request.

use std::sync::Arc;

use limiter_core::{Occupancy, Source};

use crate::rule::Disclosure;

/// What a limit on requests in flight decided about a request.
#[derive(Clone, Debug)]
pub struct InFlightDecision {
    /// The rule's own, so that all its clones have the same one.
    pub(crate) rule: Arc<str>,
    pub(crate) occupancy: Occupancy,
    pub(crate) is_admitted: bool,
    pub(crate) is_shadow: bool,
    /// Whether a refusal is answered 503.
    pub(crate) is_unavailable: bool,
    pub(crate) disclosure: Disclosure,
}

impl InFlightDecision {
    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns how many permits of the key were held, that of an admitted request included, and under which limit.
    #[must_use]
    pub const fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Returns whether there was room for the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Returns whether the rule is not enforced for this key: see [`Mode`](crate::rule::Mode). A refusal
    /// was not acted upon.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns whether header fields and refusals report the decision to clients.
    pub(crate) fn is_public(&self) -> bool {
        // A full table admits without counting.
        let has_state = self.occupancy.source() != Source::FullTable || !self.is_admitted;
        self.disclosure == Disclosure::Full && !self.is_shadow && has_state
    }
}
