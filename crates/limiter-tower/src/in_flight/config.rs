//! All that a layer of limits on requests in flight and its services share.

use std::{fmt, sync::Arc};

use super::InFlightRule;
use crate::{key::Head, observe::Outcome, respond::Answers, rule::Flag};

type SkipFn = Arc<dyn Fn(Head<'_>) -> bool + Send + Sync>;

/// All that a layer and its services share.
#[derive(Clone)]
pub(super) struct Config {
    /// In the order in which they are asked.
    pub(super) rules: Box<[InFlightRule]>,
    pub(super) skip: Option<SkipFn>,
    pub(super) answers: Answers,
    /// Whether the decisions are inserted into the extensions.
    pub(super) has_decisions: bool,
    /// Shared with all clones.
    pub(super) is_off: Arc<Flag>,
}

impl Config {
    /// Returns whether a request passes without being counted. Reports it.
    pub(super) fn passes(&self, head: Head<'_>) -> bool {
        let passes = self.is_off.get() || self.skip.as_ref().is_some_and(|skip| skip(head));
        if passes {
            self.rules.iter().for_each(|rule| rule.report(Outcome::Bypassed, head));
        }
        passes
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields, so that the compiler asks of a new one whether it is printed.
        let Self { rules, skip: _, answers, has_decisions: _, is_off } = self;
        f.debug_struct("InFlightLayer")
            .field("rules", rules)
            .field("answers", answers)
            .field("is_off", is_off)
            .finish_non_exhaustive()
    }
}
