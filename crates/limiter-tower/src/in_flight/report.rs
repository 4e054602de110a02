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
        let Details { key, occupancy, error, elapsed } = details;
        if let (Outcome::Denied, Some(occupancy)) = (outcome, occupancy) {
            log::in_flight_refused(self.name(), occupancy);
        }
        #[cfg(feature = "metrics")]
        metrics::record_in_flight(
            &self.live().name,
            outcome,
            self.settings.limiter.store(),
            elapsed,
            error.map_or(Ok(occupancy), Err),
        );
        let _ = elapsed;
        self.send(InFlightEventKind::Request(outcome), key, occupancy, error);
    }

    /// Reports what became of a permit.
    pub(super) fn report_permit(&self, kind: InFlightEventKind, key: Option<&Key<'_>>) {
        if kind != InFlightEventKind::UpgradeNotHeld {
            log::permit_lost(self.name(), kind.name());
        }
        #[cfg(feature = "metrics")]
        metrics::record_permit(&self.live().name, kind.name());
        self.send(kind, key, None, None);
    }

    fn send(
        &self,
        kind: InFlightEventKind,
        key: Option<&Key<'_>>,
        occupancy: Option<Occupancy>,
        error: Option<&Error>,
    ) {
        if let Some(observer) = &self.settings.observer {
            let (rule, store) = (self.name(), self.settings.limiter.store());
            observer(&InFlightEvent { rule, store, kind, key, occupancy, error });
        }
    }
}
