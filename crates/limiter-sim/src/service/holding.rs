//! The rule of requests in flight of a service.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http::Request;
use limiter_core::{Error, Key, OnStoreFailure, Source};
use limiter_redis::RedisInFlight;
use limiter_tower::{
    InFlightRule,
    in_flight::{HoldGuard, InFlightEventKind, RequestPermit},
    key::{ExtensionKey, KeyExtractor, MaybeKey},
    observe::Decisions,
};

use super::Client;
use crate::{
    clock::ProcessClock,
    network::SimClient,
    service_plan::{Holding, RULES},
    sync::lock,
    vocabulary::{Micros, Subject, subject},
};

/// The index of the limiter of requests in flight, behind those of the rules.
pub(crate) const IN_FLIGHT: usize = RULES.len();

/// The rule of requests in flight of a service.
pub(crate) struct Exports {
    pub(crate) holding: Holding,
    pub(crate) limiter: RedisInFlight<SimClient>,
    pub(crate) rule: InFlightRule,
    /// How many events have reported a lost permit.
    lost: Arc<AtomicU64>,
    /// What handlers never give back, in a wrong world.
    kept: Mutex<Vec<HoldGuard>>,
}

impl Exports {
    pub(crate) fn new(
        holding: Holding,
        deadline: Micros,
        (client, clock): (&SimClient, &ProcessClock),
        seed: u64,
    ) -> Result<Self, Error> {
        let limiter = RedisInFlight::builder(Holding::NAME, holding.limit)
            .expires_after(Duration::from_micros(holding.expiry))
            .deadline(Duration::from_micros(deadline))
            .clock(clock.clone())
            .seed(seed)
            .build_on(client.clone())?;
        let new = limiter.clone();
        let rule = if holding.is_shared {
            let key = ExtensionKey::new(|client: &Client| Key::from(client.tenant_name()));
            InFlightRule::new(new, key.or_reject().shared())
        } else {
            let key = ExtensionKey::new(|client: &Client| Key::from(client.user_name()));
            InFlightRule::new(new, key.or_reject())
        };
        let rule = if holding.is_strict { rule.strict() } else { rule };
        let lost = Arc::new(AtomicU64::new(0));
        let events = Arc::clone(&lost);
        let rule = rule.observe(move |event| {
            events.fetch_add(u64::from(event.kind == InFlightEventKind::Lost), Relaxed);
        });
        let denies = if holding.denies { OnStoreFailure::Deny } else { OnStoreFailure::Allow };
        let rule = rule.on_store_failure(denies);
        Ok(Self { holding, limiter, rule, lost, kept: Mutex::default() })
    }

    /// Returns the subject of a request.
    pub(crate) fn subject(&self, client: &Client) -> Subject {
        subject(IN_FLIGHT, if self.holding.is_shared { client.tenant } else { client.user })
    }

    /// Returns what holds the permit of an admitted request, `None` if the store does not count it.
    pub(crate) fn hold(&self, request: &Request<()>) -> Option<HoldGuard> {
        let decisions = request.extensions().get::<Decisions>()?;
        let decision = self.rule.decision_in(decisions)?;
        let is_counted = decision.is_admitted() && decision.occupancy().source() == Source::State;
        let permit = request.extensions().get::<RequestPermit>().filter(|_| is_counted)?;
        permit.hold()
    }

    /// Holds a permit for ever.
    pub(crate) fn keep(&self, guard: HoldGuard) {
        lock(&self.kept).push(guard);
    }

    /// Returns how many permits were lost by the counters of the limiter, and by the events of the rule.
    pub(crate) fn lost(&self) -> (u64, u64) {
        (self.limiter.counters().permits_lost, self.lost.load(Relaxed))
    }
}
