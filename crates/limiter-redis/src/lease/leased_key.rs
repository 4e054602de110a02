//! What this process leases of one key: when the store is called, for how much, and who gets it.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use limiter_core::{Cost, Decision, Source, Timestamp};

use super::{
    backoff::Backoff,
    callers::{Answered, Callers, Found, Permits},
    demand::{Ask, Demand},
    grant::{Grant, Reason, Unspent},
};
use crate::{
    call::{
        queue::Operating,
        reply::{Charged, CheckReply},
    },
    client::faults::Outcome,
    context::Context,
    events::Events,
    scripts::{LeaseTerms, Plan},
};

/// The leases of a key under one policy.
pub(crate) struct LeasedKey {
    pub(super) hash: u64,
    pub(super) key: Bytes,
    pub(super) plan: Arc<Plan>,
    terms: LeaseTerms,
    events: Arc<Events>,
    /// The lease that is spent. Read without a lock.
    current: ArcSwapOption<Grant>,
    state: Mutex<State>,
}

struct State {
    /// The lease that is spent next, which may begin later.
    next: Option<Arc<Grant>>,
    /// The lease that was spent before, if it has not ended: receipts may give permits back to it.
    previous: Option<Arc<Grant>>,
    /// Whether a request is under way.
    is_asking: bool,
    /// Why leases were given up, if that holds for what the next reply brings, too.
    given_up: Option<Reason>,
    callers: Callers,
    demand: Demand,
    backoff: Option<Backoff>,
    unspent: Vec<Unspent>,
}

impl LeasedKey {
    /// Returns a key without leases, which was busy for a while.
    pub(super) fn new(
        (hash, key, plan): (u64, &[u8], &Arc<Plan>),
        context: &Context,
        terms: LeaseTerms,
        (busy_for, now): (Duration, Timestamp),
    ) -> Self {
        let deadline = context.settings.deadline;
        let state = State {
            next: None,
            previous: None,
            is_asking: false,
            given_up: None,
            callers: Callers::default(),
            demand: Demand::new((terms.length, deadline), busy_for, now),
            backoff: None,
            unspent: Vec::new(),
        };
        Self {
            hash,
            key: Bytes::copy_from_slice(key),
            plan: Arc::clone(plan),
            terms,
            events: Arc::clone(&context.events),
            current: ArcSwapOption::empty(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn is_of(&self, hash: u64, key: &[u8], plan: &Arc<Plan>) -> bool {
        self.hash == hash && self.key == key && Arc::ptr_eq(&self.plan, plan)
    }

    /// Returns the lease that is spent.
    pub(super) fn current(&self) -> Guard<Option<Arc<Grant>>> {
        self.current.load()
    }

    /// Finds permits for a caller for which the current lease had none. `busy` returns for how long a key was busy that
    /// was not asked for lately, `denied` a cached denial.
    pub(super) fn find(
        &self,
        (cost, now): (Cost, Timestamp),
        busy: impl FnOnce() -> Option<Duration>,
        denied: impl FnOnce() -> Option<Decision>,
        operating: impl FnOnce() -> Option<Operating>,
    ) -> Found {
        let mut state = self.lock();
        if let Some(admitted) = self.spend(&mut state, cost, now) {
            return Found::Answered(admitted);
        }
        let backoff = state.backoff.as_ref();
        let refusal = backoff.and_then(|it| it.refusal(&self.plan, cost, now));
        if let Some(refusal) = refusal.or_else(denied) {
            state.demand.refuses(cost);
            return Found::Answered(Answered::Refused(refusal.with_source(Source::Cache)));
        }
        if state.demand.goes_one_by_one(state.is_asking, now) {
            return Found::Store;
        }
        if !state.is_asking && state.demand.is_old(now) {
            let Some(busy_for) = busy() else { return Found::Store };
            state.demand.is_busy_again(busy_for, now);
        }
        let Some(operating) = operating() else { return Found::Store };
        let awaited = state.callers.add(cost, now, operating);
        let must_ask = !mem::replace(&mut state.is_asking, true);
        Found::Awaited { awaited, must_ask }
    }

    /// Spends permits of any lease, after the one that is spent had too few.
    fn spend(&self, state: &mut State, cost: Cost, now: Timestamp) -> Option<Answered> {
        loop {
            let current = self.current.load_full();
            for grant in current.iter().chain(&state.previous) {
                if let Some(left) = grant.take(cost, now) {
                    let decision = grant.admitted(left, now);
                    return Some(Answered::Admitted(decision, Permits::Lease(Arc::clone(grant))));
                }
            }
            if let Some(next) = state.next.take_if(|next| next.has_begun(now)) {
                self.begin(state, Some(next), now);
            } else {
                if current.is_some_and(|grant| grant.has_ended(now)) {
                    self.begin(state, None, now);
                }
                return None;
            }
        }
    }

    /// Returns whether to ask for the next lease, because little is left of the current one.
    pub(super) fn must_ask_ahead(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        let may_ask = state.backoff.as_ref().is_none_or(|backoff| backoff.has_ended(now))
            && !state.demand.goes_one_by_one(false, now)
            && state.next.is_none();
        may_ask && !mem::replace(&mut state.is_asking, true)
    }

    /// Returns what to ask for: what the present pace needs, and at least what callers wait for.
    pub(super) fn ask(&self, now: Timestamp) -> Ask {
        let (pace, (least, needed)) = self.change(|state| {
            let left = self.current.load().as_ref().map_or(0, |grant| grant.left());
            (state.demand.asks(left, now), state.callers.are_asked_for())
        });
        Ask { cost: least.unwrap_or(Cost::ONE), wanted: pace.max(needed).max(1), at: now }
    }

    /// Gives the callers that wait what the store replied, and returns whether to ask once more for the others.
    /// `jitter` is between 0 and 1.
    pub(super) fn settle(
        &self,
        ask: Ask,
        outcome: Outcome<CheckReply>,
        (now, jitter): (Timestamp, f64),
    ) -> bool {
        self.change(|state| {
            let given_up = state.given_up;
            state.given_up.take_if(|it| *it == Reason::Drain);
            let CheckReply { decision, charged, ahead } = match outcome {
                Ok(reply) => reply,
                Err(error) => {
                    state.is_asking = false;
                    state.demand.failed(now);
                    state.callers.fail(&error);
                    return false;
                }
            };
            state.demand.replied(now.saturating_since(ask.at), now);
            let granted = charged.as_ref().map_or(0, |it| it.permits);
            let is_short = granted < ask.wanted;
            let after = || Backoff::after(&decision, ask, &self.terms, (now, jitter));
            state.backoff = is_short.then(after).flatten();
            match charged {
                Some(charged) if granted > ask.cost.get() => {
                    let grant = self.grant(charged, &decision, (ask.at, now));
                    self.distribute(state, ask, &grant, now);
                    match given_up {
                        Some(reason) => self.give_up(state, &grant, reason),
                        None => self.add(state, grant, ahead.is_some(), now),
                    }
                }
                Some(charged) => {
                    if is_short {
                        state.demand.begins(granted, now);
                    }
                    let left = state.callers.give(ask, (decision, charged));
                    // The caller for whom it was charged has left, or nobody waited.
                    let left = left.filter(|_| given_up != Some(Reason::Reset));
                    state.unspent.extend(left.map(|charged| {
                        let permits = charged.permits;
                        Unspent { charged, permits, is_lease: false }
                    }));
                }
                None => {}
            }
            if let Some(charged) = ahead {
                let grant = self.grant(charged, &decision, (ask.at, now));
                if let Some(reason) = given_up {
                    self.give_up(state, &grant, reason);
                } else {
                    state.backoff = Some(Backoff::until(&decision, ask, &grant, now));
                    self.follow(state, grant);
                }
            }
            self.refuse(state, ask, &decision, now);
            state.is_asking = !state.callers.are_none();
            state.is_asking
        })
    }

    fn grant(
        &self,
        charged: Charged,
        decision: &Decision,
        (sent, received): (Timestamp, Timestamp),
    ) -> Arc<Grant> {
        self.events.tally.leases.add();
        self.events.tally.lease_permits.add_many(charged.permits);
        let lasts = self.terms.lasts(&charged.marks, charged.delay);
        Arc::new(Grant::new(charged, decision.usage(), (sent, received), lasts))
    }

    /// Admits callers by a lease. Those that waited when its request was sent are admitted even if it has ended meanwhile,
    /// because the server counts their permits at the grant.
    fn distribute(&self, state: &mut State, ask: Ask, grant: &Arc<Grant>, now: Timestamp) {
        state.callers.answer(|cost, since| {
            let left = match since <= ask.at {
                true => grant.take_late(cost)?,
                false => grant.take(cost, now)?,
            };
            Some(Answered::Admitted(grant.admitted(left, now), Permits::Lease(Arc::clone(grant))))
        });
    }

    /// Refuses the callers for whom the store has nothing, or is not called soon. The others stay, and it is called at once.
    fn refuse(&self, state: &mut State, ask: Ask, decision: &Decision, now: Timestamp) {
        let State { callers, backoff, .. } = state;
        let plan = &self.plan;
        callers.answer(|cost, since| {
            let is_asked_for = since <= ask.at;
            let refusal = backoff.as_ref().and_then(|it| {
                let asked = is_asked_for.then(|| it.refusal_of_asked(plan, cost)).flatten();
                asked.or_else(|| it.refusal(plan, cost, now))
            });
            let is_refused = !decision.is_admitted() && cost == ask.cost;
            refusal.or_else(|| is_refused.then_some(*decision)).map(Answered::Refused)
        });
    }

    /// Adds a lease behind the current one if that still has permits, unless another one follows.
    fn add(&self, state: &mut State, grant: Arc<Grant>, is_followed: bool, now: Timestamp) {
        let current = self.current.load();
        let has_permits = |current: &Arc<Grant>| current.left() > 0 && !current.has_ended(now);
        if !is_followed && current.as_ref().is_some_and(has_permits) {
            self.follow(state, grant);
        } else {
            self.begin(state, Some(grant), now);
        }
    }

    /// Makes a lease the next one. One that was to follow before has not ended, and goes back.
    fn follow(&self, state: &mut State, grant: Arc<Grant>) {
        if let Some(replaced) = state.next.replace(grant) {
            self.close(state, &replaced, true);
        }
    }

    /// Ends the current lease, and begins to spend the next one.
    fn begin(&self, state: &mut State, next: Option<Arc<Grant>>, now: Timestamp) {
        let size = next.as_ref().map(|next| next.permits);
        if let Some(before) = mem::replace(&mut state.previous, self.current.swap(next)) {
            self.retire(state, &before);
        }
        let ended = state.previous.take_if(|old| old.has_ended(now));
        let unused = ended.map_or(0, |old| self.retire(state, &old));
        match size {
            Some(size) => state.demand.begins(size, now),
            None if unused > 0 => state.demand.shrinks(),
            None => {}
        }
    }

    /// Ends a lease and counts its permits. Returns how many were not spent.
    fn retire(&self, state: &mut State, grant: &Grant) -> u64 {
        let Charged { permits, marks, delay, .. } = &grant.charged;
        let comes_back = self.terms.come_back(*permits, marks, *delay) > 0;
        self.close(state, grant, comes_back)
    }

    /// Ends a lease before its time.
    fn give_up(&self, state: &mut State, grant: &Grant, reason: Reason) {
        self.close(state, grant, reason != Reason::Reset);
    }

    /// Ends a lease and counts its permits. Returns how many were not spent, which go back if they may `come_back`.
    fn close(&self, state: &mut State, grant: &Grant, come_back: bool) -> u64 {
        let tally = &self.events.tally;
        let Some(permits) = grant.close() else { return 0 };
        tally.leased.add_many(grant.permits - permits);
        if come_back && permits > 0 {
            let charged = grant.charged.clone();
            state.unspent.push(Unspent { charged, permits, is_lease: true });
        } else {
            tally.lease_unused.add_many(permits);
        }
        permits
    }

    /// Ends the leases whose time is over.
    pub(super) fn sweep(&self, now: Timestamp) {
        let mut state = self.lock();
        if let Some(previous) = state.previous.take_if(|it| it.has_ended(now)) {
            self.retire(&mut state, &previous);
        }
        while self.current.load().as_ref().is_some_and(|grant| grant.has_ended(now)) {
            let next = state.next.take_if(|next| next.has_begun(now));
            self.begin(&mut state, next, now);
        }
    }

    /// Notes that the key was charged without its leases, so that waits after the last reply are longer now. The wait for a
    /// lease that begins later is not.
    pub(super) fn outdates(&self) {
        self.lock().backoff.take_if(|backoff| !backoff.is_until_a_lease());
    }

    /// Takes what goes back to the store.
    pub(super) fn take_unspent(&self) -> Vec<Unspent> {
        mem::take(&mut self.lock().unspent)
    }

    /// Returns whether this may be replaced: no lease is spent or asked for.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let is_idle = |grant: &Arc<Grant>| grant.left() == 0 || grant.has_ended(now);
        let current = self.current.load();
        !state.is_asking && current.iter().chain(&state.next).all(is_idle)
    }

    /// Gives up all leases, and what a reply that is under way brings.
    pub(super) fn forget(&self, reason: Reason) {
        let mut state = self.lock();
        if state.is_asking || reason != Reason::Drain {
            state.given_up = state.given_up.max(Some(reason));
        }
        let others = [self.current.swap(None), state.previous.take(), state.next.take()];
        others.into_iter().flatten().for_each(|grant| self.give_up(&mut state, &grant, reason));
    }

    /// Ends a request that will have no outcome, because its runtime was shut down. Its callers are told so.
    pub(super) fn abandon(&self) {
        self.change(|state| {
            state.is_asking = false;
            state.given_up.take_if(|it| *it == Reason::Drain);
            state.callers.clear();
        });
    }

    /// Changes the state, and then answers callers without the lock: whoever is woken may check the key at once.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let gone = state.callers.take_gone();
        drop(state);
        gone.send();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under the lock can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
