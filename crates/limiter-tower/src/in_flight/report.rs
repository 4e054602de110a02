//! Reports what a rule did with a request, and what became of its permits.

use std::time::Duration;

use limiter_core::{Error, Key, Occupancy};

use super::{InFlightEvent, InFlightEventKind, InFlightRule};
#[cfg(feature = "metrics")]
use crate::observe::metrics;
use crate::observe::{Outcome, log};

/// What a limiter answered, if it was asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Details<'a> {
    pub(super) key: Option<&'a Key<'a>>,
    pub(super) occupancy: Option<Occupancy>,
    pub(super) error: Option<&'a Error>,
    pub(super) elapsed: Option<Duration>,
}

impl InFlightRule {
    /// Reports that a rule was not asked.
    pub(crate) fn report_not_asked(&self, outcome: Outcome) {
        self.report(outcome, Details::default());
    }

    pub(super) fn report(&self, outcome: Outcome, details: Details<'_>) {
        if let (Outcome::Denied, Some(occupancy)) = (outcome, details.occupancy) {
            log::in_flight_refused(self.name(), occupancy);
        }
        #[cfg(feature = "metrics")]
        metrics::record_in_flight(
            &self.live().name,
            outcome,
            self.settings.limiter.store(),
            details.elapsed,
            details.error.map_or(Ok(details.occupancy), Err),
        );
        self.send(InFlightEventKind::Request(outcome), details);
    }

    /// Reports what became of a permit.
    pub(super) fn report_permit(&self, kind: InFlightEventKind, key: Option<&Key<'_>>) {
        if kind != InFlightEventKind::UpgradeNotHeld {
            log::permit_lost(self.name(), kind.name());
        }
        #[cfg(feature = "metrics")]
        metrics::record_permit(&self.live().name, kind.name());
        self.send(kind, Details { key, ..Details::default() });
    }

    /// Returns whether an observer receives events.
    pub(super) fn is_observed(&self) -> bool {
        self.settings.observer.is_some() || self.settings.layer_observer.is_some()
    }

    fn send(&self, kind: InFlightEventKind, details: Details<'_>) {
        let Details { key, occupancy, error, elapsed } = details;
        let (rule, store) = (self.name(), self.settings.limiter.store());
        let event = InFlightEvent { rule, store, kind, key, occupancy, error, elapsed };
        let observers = [&self.settings.observer, &self.settings.layer_observer];
        observers.into_iter().flatten().for_each(|observer| observer(&event));
    }
}
