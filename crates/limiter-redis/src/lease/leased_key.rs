//! What this process leases of one key: when the store is asked, for how much, and who gets it.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use limiter_core::{Cost, Decision, Source, Timestamp, Usage};
use tokio::sync::oneshot;

use super::grant::Grant;
use crate::{
    call::request::Operating,
    client::faults::Outcome,
    counters::Tally,
    handle::Handle,
    scripts::{Charged, CheckReply, LeaseTerms},
};

/// The leases of a key under one policy.
pub(crate) struct LeasedKey {
    pub(super) hash: u64,
    pub(super) key: Bytes,
    pub(super) handle: Arc<Handle>,
    terms: LeaseTerms,
    /// The lease that is spent. Read without a lock.
    current: ArcSwapOption<Grant>,
    state: Mutex<State>,
}

struct State {
    /// The lease that is spent next.
    next: Option<Arc<Grant>>,
    /// The lease that was spent before, if it has not ended: receipts may give permits back to it.
    previous: Option<Arc<Grant>>,
    /// Whether a request is under way.
    is_asking: bool,
    /// Whether leases were given up while a request was under way, so that its reply brings none.
    is_forgotten: bool,
    /// Whether this is not in the table any more, so that nobody would spend another lease.
    is_removed: bool,
    waiting: Vec<Waiting>,
    /// How many permits the last reply granted, and since when they are spent.
    size: u64,
    since: Option<Timestamp>,
    scarcity: Option<Scarcity>,
}

/// A key whose limit is nearly used up is not asked for again before a moment.
struct Scarcity {
    usage: Usage,
    /// Until when the store would refuse.
    refused_until: Timestamp,
    received: Timestamp,
    asked_again: Timestamp,
}

/// A caller whose permits were asked for.
struct Waiting {
    cost: Cost,
    since: Timestamp,
    caller: oneshot::Sender<Outcome<Answered>>,
    /// Counts it among the operations under way.
    _operating: Operating,
}

/// What a caller gets.
pub(crate) enum Answered {
    Admitted(Decision, Permits),
    Refused(Decision),
}

/// Where permits come from, for their refund.
pub(crate) enum Permits {
    Lease(Arc<Grant>),
    Store(Charged),
}

/// What there is for a caller.
pub(crate) enum Found {
    Answered(Answered),
    /// The reply to a request that is under way, or that the caller has to start.
    Awaited {
        outcome: oneshot::Receiver<Outcome<Answered>>,
        must_ask: bool,
    },
}

/// A request for permits.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    /// What is charged at least.
    pub(super) cost: Cost,
    pub(super) wanted: u64,
    pub(super) at: Timestamp,
}

impl Ask {
    /// Returns whether the store charged at least this cost for a caller who waited since then. What it charged
    /// for that moment is for nobody who came later.
    fn is_for(&self, cost: Cost, since: Timestamp) -> bool {
        cost == self.cost && since <= self.at
    }
}

impl LeasedKey {
    pub(super) fn new(hash: u64, key: &[u8], handle: &Arc<Handle>, terms: LeaseTerms) -> Self {
        let state = State {
            next: None,
            previous: None,
            is_asking: false,
            is_forgotten: false,
            is_removed: false,
            waiting: Vec::new(),
            size: 1,
            since: None,
            scarcity: None,
        };
        Self {
            hash,
            key: Bytes::copy_from_slice(key),
            handle: Arc::clone(handle),
            terms,
            current: ArcSwapOption::empty(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn is_of(&self, hash: u64, key: &[u8], handle: &Arc<Handle>) -> bool {
        self.hash == hash && self.key == key && Arc::ptr_eq(&self.handle, handle)
    }

    /// Returns the lease that is spent.
    pub(super) fn current(&self) -> Guard<Option<Arc<Grant>>> {
        self.current.load()
    }

    /// Finds permits for a caller for which the current lease had none. `denied` returns a cached denial.
    pub(super) fn find(
        &self,
        cost: Cost,
        now: Timestamp,
        operating: Operating,
        tally: &Tally,
        denied: impl FnOnce() -> Option<Decision>,
    ) -> Found {
        let mut state = self.lock();
        loop {
            let current = self.current.load_full();
            for grant in current.iter().chain(&state.previous) {
                if let Some(left) = grant.take(cost, now) {
                    tally.admitted.add();
                    let decision = grant.admitted(left, now);
                    let permits = Permits::Lease(Arc::clone(grant));
                    return Found::Answered(Answered::Admitted(decision, permits));
                }
            }
            if let Some(next) = state.next.take() {
                self.begin(&mut state, Some(next), now, tally);
            } else {
                if current.is_some_and(|grant| grant.has_ended(now)) {
                    self.begin(&mut state, None, now, tally);
                }
                break;
            }
        }
        if let Some(refusal) = state.refusal(cost, now).or_else(denied) {
            return Found::Answered(Answered::Refused(refusal.with_source(Source::Cache)));
        }
        let (caller, outcome) = oneshot::channel();
        state.waiting.push(Waiting { cost, since: now, caller, _operating: operating });
        let must_ask = !mem::replace(&mut state.is_asking, true);
        Found::Awaited { outcome, must_ask }
    }

    /// Returns whether to ask for the next lease, because little is left of the current one.
    pub(super) fn must_ask_ahead(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        let is_early = state.scarcity.as_ref().is_some_and(|it| now < it.asked_again);
        !is_early && state.next.is_none() && !mem::replace(&mut state.is_asking, true)
    }

    /// Returns what to ask for: the permits that the present pace spends in half of a lease, at most twice as
    /// many as before, and at least those that callers wait for.
    pub(super) fn ask(&self, now: Timestamp) -> Ask {
        let state = self.lock();
        let left = self.current.load().as_ref().map_or(0, |grant| grant.left());
        let spent = u128::from(state.size.saturating_sub(left));
        let pace = state.since.map_or(0, |since| {
            let time = now.saturating_since(since).max(Duration::from_micros(100));
            spent * (self.terms.length / 2).as_nanos() / time.as_nanos()
        });
        let pace = u64::try_from(pace).unwrap_or(u64::MAX).min(state.size.saturating_mul(2));
        let costs = || state.waiting.iter().map(|waiting| waiting.cost);
        let needed = costs().fold(0, |sum: u64, cost| sum.saturating_add(cost.get()));
        Ask { cost: costs().min().unwrap_or(Cost::ONE), wanted: pace.max(needed).max(1), at: now }
    }

    /// Gives the callers that wait what the store replied, and returns whether to ask once more for the others.
    /// `jitter` is between 0 and 1.
    pub(super) fn settle(
        &self,
        ask: Ask,
        outcome: Outcome<CheckReply>,
        (now, jitter): (Timestamp, f64),
        tally: &Tally,
    ) -> bool {
        let mut state = self.lock();
        let is_forgotten = mem::take(&mut state.is_forgotten) || state.is_removed;
        let CheckReply { decision, charged } = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                state.is_asking = false;
                for waiting in mem::take(&mut state.waiting) {
                    drop(waiting.caller.send(Err(Arc::clone(&error))));
                }
                return false;
            }
        };
        let usage = decision.usage();
        let granted = charged.as_ref().map_or(0, Charged::permits);
        let is_scarce =
            granted < ask.wanted && state.size > 1 && usage.remaining() < self.terms.half;
        state.scarcity = is_scarce.then(|| Scarcity {
            usage,
            refused_until: now.saturating_add(match decision.is_admitted() {
                true => self.handle.plan.wait_after(&usage, ask.cost),
                false => decision.retry_after().unwrap_or_default(),
            }),
            received: now,
            // The next window has room for all.
            asked_again: now
                .saturating_add(usage.reset_after())
                .min(ask.at.saturating_add(self.terms.length.mul_f64(0.4 + 0.2 * jitter))),
        });
        match charged {
            Some(charged) if granted > ask.cost.get() => {
                tally.leases.add();
                tally.lease_permits.add_many(granted);
                let lasts = charged.lasts(&self.terms);
                let grant = Arc::new(Grant::new(charged, usage, (ask.at, now), lasts));
                // One that waited already may have its permits even if the lease has ended meanwhile.
                let mut is_first = true;
                state.serve(|cost, since| {
                    let left = if ask.is_for(cost, since) && mem::take(&mut is_first) {
                        grant.take_late(cost)?
                    } else {
                        grant.take(cost, now)?
                    };
                    tally.admitted.add();
                    Some((grant.admitted(left, now), Permits::Lease(Arc::clone(&grant))))
                });
                if is_forgotten {
                    retire(&grant, tally);
                } else {
                    self.add(&mut state, grant, now, tally);
                }
            }
            Some(charged) => {
                (state.size, state.since) = (granted, Some(now));
                let mut charged = Some(charged);
                state.serve(|cost, since| {
                    let charged = ask.is_for(cost, since).then(|| charged.take()).flatten()?;
                    tally.admitted.add();
                    Some((decision, Permits::Store(charged)))
                });
            }
            None => {}
        }
        // The store has nothing for the others, or is not asked soon. Or it is asked at once.
        for waiting in mem::take(&mut state.waiting) {
            let refusal = state.refusal(waiting.cost, now);
            match refusal.or_else(|| (!decision.is_admitted()).then_some(decision)) {
                _ if waiting.caller.is_closed() => {}
                Some(refusal) => drop(waiting.caller.send(Ok(Answered::Refused(refusal)))),
                None => state.waiting.push(waiting),
            }
        }
        state.is_asking = !state.waiting.is_empty();
        state.is_asking
    }

    /// Adds a lease behind the current one, if that still has permits.
    fn add(&self, state: &mut State, grant: Arc<Grant>, now: Timestamp, tally: &Tally) {
        let current = self.current.load();
        if current.as_ref().is_some_and(|current| current.left() > 0 && !current.has_ended(now)) {
            state.next = Some(grant);
        } else {
            self.begin(state, Some(grant), now, tally);
        }
    }

    /// Ends the current lease, and begins to spend the next one.
    fn begin(&self, state: &mut State, next: Option<Arc<Grant>>, now: Timestamp, tally: &Tally) {
        let size = next.as_ref().map(|next| next.permits);
        if let Some(before) = mem::replace(&mut state.previous, self.current.swap(next)) {
            retire(&before, tally);
        }
        let ended = state.previous.take_if(|old| old.has_ended(now));
        let unused = ended.map_or(0, |old| retire(&old, tally));
        if let Some(size) = size {
            (state.size, state.since) = (size, Some(now));
        } else if unused > 0 {
            state.size = (state.size / 2).max(1);
        }
    }

    /// Counts what was not spent of the leases that have ended.
    pub(super) fn sweep(&self, now: Timestamp, tally: &Tally) {
        let mut state = self.lock();
        if let Some(previous) = state.previous.take_if(|it| it.has_ended(now)) {
            retire(&previous, tally);
        }
        while self.current.load().as_ref().is_some_and(|grant| grant.has_ended(now)) {
            let next = state.next.take();
            self.begin(&mut state, next, now, tally);
        }
    }

    /// Returns whether this may be replaced: no lease is spent or asked for. One that was granted more than a length
    /// ago, as a window's may be, is hardly spent any more.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let is_idle = |grant: &Arc<Grant>| {
            grant.left() == 0
                || now >= grant.received.saturating_add(self.terms.length)
                || grant.has_ended(now)
        };
        let current = self.current.load();
        !state.is_asking && current.iter().chain(&state.next).all(is_idle)
    }

    #[cfg(test)]
    pub(super) fn is_asking(&self) -> bool {
        self.lock().is_asking
    }

    /// Gives up all leases, and returns them with what was not spent. A reply that is under way brings no lease,
    /// and no reply does if this `is_removed` from the table.
    pub(super) fn forget(&self, is_removed: bool) -> Vec<Arc<Grant>> {
        let mut state = self.lock();
        state.is_forgotten = state.is_asking;
        state.is_removed |= is_removed;
        let State { next, previous, .. } = &mut *state;
        let others = previous.take().into_iter().chain(next.take());
        self.current.swap(None).into_iter().chain(others).collect()
    }

    /// Ends a request that will have no outcome, because its runtime was shut down. Its callers are told so.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        (state.is_asking, state.is_forgotten) = (false, false);
        state.waiting.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under the lock can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a lease and counts its permits. Returns how many were not spent.
pub(super) fn retire(grant: &Grant, tally: &Tally) -> u64 {
    let Some(unused) = grant.close() else { return 0 };
    tally.leased.add_many(grant.permits - unused);
    tally.lease_unused.add_many(unused);
    unused
}

impl State {
    /// Serves the callers that still wait and for whose cost there are permits.
    fn serve(&mut self, mut take: impl FnMut(Cost, Timestamp) -> Option<(Decision, Permits)>) {
        for waiting in mem::take(&mut self.waiting) {
            if waiting.caller.is_closed() {
                continue;
            }
            match take(waiting.cost, waiting.since) {
                Some((decision, permits)) => {
                    drop(waiting.caller.send(Ok(Answered::Admitted(decision, permits))));
                }
                None => self.waiting.push(waiting),
            }
        }
    }

    /// Returns the refusal of a cost while the key is scarce: until the store would not refuse it, and is asked
    /// again.
    fn refusal(&self, cost: Cost, now: Timestamp) -> Option<Decision> {
        let scarcity = self.scarcity.as_ref().filter(|scarcity| now < scarcity.asked_again)?;
        let Scarcity { usage, refused_until, received, asked_again } = scarcity;
        let wait = (cost.get() <= usage.burst())
            .then(|| refused_until.max(asked_again).saturating_since(now));
        let reset_after = usage.reset_after().saturating_sub(now.saturating_since(*received));
        let remaining = usage.remaining().min(cost.get() - 1);
        Some(Decision::refused(Usage::new(usage.burst(), remaining, reset_after), wait))
    }
}
