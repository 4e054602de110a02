//! Whether permits of requests behind a layer come back, and requests enter up to the limit.

use std::sync::Arc;

use crate::{
    service::{Exports, IN_FLIGHT},
    service_plan::{Holding, USER},
    sync::lock,
    traffic::Member,
    vocabulary::{KEYS, Micros, SETTLES_IN, Subject, subject},
    world::World,
};

/// How long permits that could not be given back may outlast their expiry.
const LATE: Micros = 1_500_000;

/// How long requests take that enter a key together.
const TOGETHER: Micros = 100_000;

impl World {
    /// Checks that all permits come back, and that of more requests than the limit so many are admitted, while the others
    /// are refused and have charged nothing.
    pub(super) fn hold_once(&mut self, holding: &Holding) {
        let stepped_back =
            self.network.with_records(|records, _| records.auditor.in_flight.stepped_back);
        self.run_for(holding.expiry + LATE + stepped_back);
        self.all_have_come_back();
        if self.is_violated() {
            return;
        }
        self.reset_all();
        self.each_exports(|member, exports| async move {
            // An open circuit breaker lets one call through.
            for limiter in &member.limiters {
                member.until_done(|| limiter.peek(KEYS[0])).await;
            }
            member.until_done(|| exports.limiter.peek(KEYS[0])).await;
        });
        self.run_for(SETTLES_IN);
        let clients = self.clients();
        let before = self.network.with_records(|records, _| records.auditor.in_flight.counts);
        let most = holding.limit as usize;
        for place in 0..=most {
            let Some(clients) = clients.get(place % clients.len().max(1)) else { return };
            let clients = Arc::clone(clients);
            self.executor.spawn(clients.member.process, async move {
                let client = clients.client((0, 0), 1, false, TOGETHER);
                clients.request(client, None).await;
            });
        }
        self.run_for(TOGETHER / 2);
        let key = subject(IN_FLIGHT, 0);
        let (at_work, after) = self.network.with_records(|records, _| {
            let in_flight = &records.auditor.in_flight;
            (in_flight.at_work(), in_flight.counts)
        });
        let refused = after.refused - before.refused;
        if (at_work, refused) != (most, 1) {
            let message = format!(
                "of {} requests at once, {at_work} were admitted and {refused} refused",
                most + 1
            );
            self.violated(key, &message);
        }
        self.run_for(SETTLES_IN);
        self.all_have_come_back();
        if self.processes.fleet.services.as_ref().is_some_and(|plan| plan.is_long(USER)) {
            self.charged_for(most as u64);
        }
    }

    /// Checks that the requests of a user were charged as often as they were admitted.
    fn charged_for(&self, admitted: u64) {
        let Some(member) = self.members().into_iter().next() else { return };
        let used = Arc::new(std::sync::Mutex::new(None));
        let seen = Arc::clone(&used);
        self.executor.spawn(member.process, async move {
            if let Some(user) = member.limiters.get(USER) {
                let usage = member.until_done(|| user.peek(KEYS[0])).await;
                *lock(&seen) = usage.map(|usage| usage.used());
            }
        });
        self.run_for(SETTLES_IN);
        let used = *lock(&used);
        if used != Some(admitted) {
            let message = format!("{used:?} permits are charged for {admitted} admitted requests");
            self.violated(subject(USER, 0), &message);
        }
    }

    fn all_have_come_back(&self) {
        let members = self.members();
        let Some(exports) = members.first().and_then(|member| member.exports()) else { return };
        for (key, name) in KEYS.iter().enumerate() {
            let Ok(stored) = exports.limiter.stored_key(*name) else { continue };
            let (permits, _) = self.stored(&stored);
            if permits > 0 {
                let message = format!("{permits} permits have not come back");
                self.violated(subject(IN_FLIGHT, key), &message);
            }
        }
        for member in members {
            let Some(exports) = member.exports() else { continue };
            let (lost, reported) = exports.lost();
            if lost != reported {
                let process = member.process;
                let message = format!("{process} has lost {lost} permits, and reported {reported}");
                self.violated(Subject::ALL, &message);
            }
            let held = exports.rule.held() + exports.limiter.held();
            if held > 0 {
                self.violated(Subject::ALL, &format!("{} holds {held} permits", member.process));
            }
        }
    }

    fn each_exports<F>(&self, work: impl Fn(Arc<Member>, Arc<Exports>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        for member in self.members() {
            if let Some(exports) = member.exports() {
                self.executor.spawn(member.process, work(Arc::clone(&member), exports));
            }
        }
    }
}

impl Member {
    fn exports(&self) -> Option<Arc<Exports>> {
        self.service.as_ref()?.exports.clone()
    }
}
