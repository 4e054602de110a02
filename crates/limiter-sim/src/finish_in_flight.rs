//! What requests in flight have to show after the faults have stopped.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
};

use crate::{
    auditor::InFlightTally,
    in_flight_plan::Plan,
    sync::lock,
    traffic::{AtWork, Member, enter},
    vocabulary::{KEYS, Micros, ProcessId, Subject, subject},
    world::World,
};

/// How long a call takes at most without faults, and what follows from its reply.
const CALL: Micros = 500_000;

/// How long permits that could not be given back may outlast their expiry.
const LATE: Micros = 1_500_000;

/// Work of each key.
type Held = Arc<Mutex<BTreeMap<Subject, Vec<AtWork>>>>;

impl World {
    /// Checks that all permits come back, that keys are entered up to their limits, and how many calls that takes.
    pub(crate) fn finish_in_flight(&mut self) {
        let Some(plan) = self.processes.fleet.in_flight.clone() else { return };
        self.run_for_now(plan.longest_hold() + LATE);
        let (at_work, stepped_back) = self.network.with_records(|records, _| {
            let in_flight = &records.auditor.in_flight;
            (in_flight.at_work(), in_flight.stepped_back)
        });
        if at_work > 0 {
            self.violated(Subject::ALL, &format!("{at_work} requests have not ended"));
        }
        // The last one has just ended, or before.
        self.run_for_now(plan.longest_expiry() + LATE + stepped_back);
        self.each_key(&plan, |world, subject, stored| {
            let (permits, _) = world.stored(stored);
            if permits > 0 {
                world.violated(subject, &format!("{permits} permits have not come back"));
            }
        });
        if self.is_violated() {
            return;
        }
        let held = self.enter_up_to_limits(&plan);
        if !self.is_violated() {
            self.hold(&plan);
        }
        drop(mem::take(&mut *lock(&held)));
        self.run_for_now(CALL);
        self.each_key(&plan, |world, subject, stored| {
            if let (permits, true) = world.stored(stored) {
                world.violated(subject, &format!("a key is left with {permits} permits"));
            }
        });
        if !self.is_violated() {
            self.enter_for_a_short_time(&plan);
        }
    }

    fn run_for_now(&self, time: Micros) {
        self.executor.run_until(self.executor.now() + time);
    }

    fn all_members(&self) -> Vec<Arc<Member>> {
        self.processes.members().cloned().collect()
    }

    fn each_key(&self, plan: &Plan, check: impl Fn(&Self, Subject, &[u8])) {
        let members = self.all_members();
        let Some(in_flight) = members.first().and_then(|it| it.in_flight.as_ref()) else { return };
        for limiter in 0..plan.limiters.len() {
            for (key, name) in KEYS.iter().enumerate() {
                let stored = in_flight.limiters.get(limiter).map(|it| it.inner.stored_key(*name));
                if let Some(Ok(stored)) = stored {
                    check(self, subject(limiter, key), &stored);
                }
            }
        }
    }

    /// Returns how many permits of a key the server has that are not over, and whether there is a key at all.
    pub(crate) fn stored(&self, key: &[u8]) -> (usize, bool) {
        let (now, mut found) = (self.executor.now(), (0, false));
        let node = self.network.node_of(key);
        self.network.with_server(node, |server| found = server.permits(key, now));
        found
    }

    /// Lets each process ask about each key, one after the other: an open circuit breaker lets one call through.
    fn close_breakers(&self, plan: &Plan) {
        for member in self.all_members() {
            let Some(in_flight) = member.in_flight.clone() else { continue };
            self.executor.spawn(member.process, async move {
                for limiter in in_flight.limiters.iter() {
                    for key in KEYS {
                        drop(limiter.inner.peek(key).await);
                    }
                }
            });
        }
        let peeks = 2 * plan.limiters.len() as u64;
        self.run_for_now(peeks * CALL);
    }

    /// Lets requests enter each key, one after the other and in one process after the other, until one is refused.
    fn enter_up_to_limits(&self, plan: &Plan) -> Held {
        // Several times, because a call before its breaker's next probe is due closes nothing.
        (0..3).for_each(|_| self.close_breakers(plan));
        let (members, held) = (self.all_members(), Held::default());
        let most = plan.limiters.iter().map(|kind| kind.limit).max().unwrap_or(0);
        for member in (0..=most as usize).filter_map(|round| members.get(round % members.len())) {
            for (limiter, kind) in plan.limiters.iter().enumerate() {
                for key in 0..KEYS.len() {
                    let Some(in_flight) = member.in_flight.clone() else { continue };
                    let (member, held) = (Arc::clone(member), Arc::clone(&held));
                    let (subject, limit) = (subject(limiter, key), kind.limit);
                    self.executor.spawn(member.process, async move {
                        let entered = enter(&member, &in_flight, subject, limit, None).await;
                        lock(&held).entry(subject).or_default().extend(entered);
                    });
                }
            }
            self.run_for_now(CALL);
        }
        let entered = lock(&held);
        for (limiter, kind) in plan.limiters.iter().enumerate() {
            for key in 0..KEYS.len() {
                let number = entered.get(&subject(limiter, key)).map_or(0, Vec::len);
                if number != kind.limit as usize {
                    let message = format!("{number} requests have entered a key without others");
                    self.violated(subject(limiter, key), &message);
                }
            }
        }
        drop(entered);
        held
    }

    /// Holds permits for two expiries, and compares the number of renewals.
    fn hold(&self, plan: &Plan) {
        let before = self.tallies(plan);
        let time = 2 * plan.longest_expiry();
        self.run_for_now(time);
        for ((process, limiter), after) in self.tallies(plan) {
            let before = before.get(&(process, limiter)).copied().unwrap_or_default();
            let Some(kind) = plan.limiters.get(limiter) else { continue };
            let slots = if self.network.nodes() > 1 { KEYS.len() as u64 } else { 1 };
            let renewals = after.renewals - before.renewals;
            // A clock may run a little faster than that of the world, and a call may be under way when the time begins.
            let most = slots * (3 * (time + time / 1_000) / kind.expiry + 2);
            if renewals > most || after.lost > before.lost {
                let lost = after.lost - before.lost;
                let message = format!(
                    "{process} has renewed permits {renewals} times in {time} us, {most} at most, and lost {lost}"
                );
                self.violated(subject(limiter, 0), &message);
            }
        }
    }

    fn tallies(&self, plan: &Plan) -> BTreeMap<(ProcessId, usize), InFlightTally> {
        let ids = self.processes.ids();
        let all = ids.iter().flat_map(|id| (0..plan.limiters.len()).map(|limiter| (*id, limiter)));
        self.network.with_records(|records, _| {
            all.map(|(id, limiter)| ((id, limiter), *records.auditor.in_flight.tally(id, limiter)))
                .collect()
        })
    }

    /// Lets one request a process enter and leave, which takes two calls.
    fn enter_for_a_short_time(&self, plan: &Plan) {
        let before = self.tallies(plan);
        for member in self.all_members() {
            let Some(in_flight) = member.in_flight.clone() else { continue };
            let limits = plan.limiters.iter().map(|kind| kind.limit).enumerate();
            for (limiter, limit) in limits {
                let (member, in_flight) = (Arc::clone(&member), Arc::clone(&in_flight));
                self.executor.spawn(member.process, async move {
                    let work = enter(&member, &in_flight, subject(limiter, 0), limit, None).await;
                    member.sleep(5_000).await;
                    drop(work);
                });
            }
            self.run_for_now(CALL);
        }
        for ((process, limiter), after) in self.tallies(plan) {
            let before = before.get(&(process, limiter)).copied().unwrap_or_default();
            let (calls, entered) = (after.calls - before.calls, after.admitted - before.admitted);
            if (calls, entered) != (2, 1) {
                let message = format!("{entered} short requests of {process} took {calls} calls");
                self.violated(subject(limiter, 0), &message);
            }
        }
    }
}
