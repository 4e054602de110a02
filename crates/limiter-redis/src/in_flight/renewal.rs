//! Renews permits that are held for longer than a third of their expiry, and sees which are lost.

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    permit_state::PermitState,
    shared::{BY_CLOCK, Gate, Shared},
    table::Changes,
};
use crate::{
    call::{deadline::Deadline, request::Operating},
    client::{
        ScriptClient,
        faults::{CallError, Outcome, reported},
    },
    events::EventKind,
    scripts::{
        Scripts,
        in_flight::{PermitId, Renewed},
    },
};

/// Why permits are lost by a reply.
const BY_REPLY: &str = "the store has lost them, and others have taken their places";

impl<C: ScriptClient> Shared<C> {
    /// Starts the task that renews permits, which ends when none is left.
    pub(super) fn watch(self: &Arc<Self>) {
        let watch = Watch { shared: Arc::downgrade(self), is_over: false };
        self.client.spawn(watch.run());
    }

    /// Starts a renewal for each group of permits that can share a call.
    fn renew(self: &Arc<Self>, due: Vec<Arc<PermitState>>) {
        for group in self.groups(due, |held| &held.key) {
            let operating = self.under_way.begin();
            let renewal = Renewal { shared: Arc::clone(self), group, operating };
            self.client.spawn(renewal.run());
        }
    }
}

/// The task that renews permits. If it is dropped with its runtime, the next permit starts another one.
struct Watch<C: ScriptClient> {
    shared: Weak<Shared<C>>,
    is_over: bool,
}

impl<C: ScriptClient> Watch<C> {
    /// Renews all permits that are old enough at the same moments, so that they share calls.
    async fn run(mut self) {
        let mut due = None;
        loop {
            let Some(shared) = self.shared.upgrade() else { return };
            let (now, period) = (shared.now(), shared.expiry.period());
            let at = due.unwrap_or_else(|| now.saturating_add(period));
            let is_due = now >= at;
            // Until the renewals have begun.
            let operating = shared.under_way.begin();
            let (Changes { due: permits, leaves, lost, .. }, ends) =
                shared.table.advance(now, is_due);
            if lost > 0 {
                let key = leaves.first().map(|leave| leave.key.clone()).unwrap_or_default();
                shared.report_lost(lost, &key, BY_CLOCK);
            }
            shared.leave(leaves);
            shared.renew(permits);
            let Some(ends) = ends else {
                self.is_over = true;
                return;
            };
            let next = at.saturating_add(if is_due { period } else { Default::default() });
            let next = if next > now { next } else { now.saturating_add(period) };
            due = Some(next);
            let sleep = shared.client.sleep(next.min(ends).saturating_since(now));
            // Its permits keep the limiter.
            drop((operating, shared));
            sleep.await;
        }
    }
}

impl<C: ScriptClient> Drop for Watch<C> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade().filter(|_| !self.is_over) {
            shared.table.is_unwatched();
        }
    }
}

/// The renewal of permits that share a call, which is repeated until it succeeds or none is left.
struct Renewal<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    group: Vec<Arc<PermitState>>,
    /// While a call is under way, because permits that are dropped meanwhile are given back after it.
    operating: Option<Operating>,
}

impl<C: ScriptClient> Renewal<C> {
    async fn run(mut self) {
        loop {
            let Some(first) = self.group.first() else { return };
            let (shared, key) = (Arc::clone(&self.shared), first.key.clone());
            let error = self.attempt().await;
            let Some(error) = error else { return };
            shared.report(EventKind::StoreError(reported(&error)), &key);
            self.operating = None;
            if !shared.stops_spanning(&error) {
                shared.client.sleep(shared.expiry.pause()).await;
            }
            self.operating = shared.under_way.begin();
            self.group = shared.table.resume(&mem::take(&mut self.group), shared.now());
            if error.fault() == crate::Fault::CrossSlot {
                return shared.renew(mem::take(&mut self.group));
            }
        }
    }

    /// Sends a call, and keeps the permits of which it does not show what became. Returns the error if there is one.
    async fn attempt(&mut self) -> Option<Arc<CallError>> {
        let shared = &self.shared;
        let mut permits: Vec<(_, Vec<PermitId>)> = Vec::new();
        for held in &self.group {
            let permit = PermitId { id: shared.ids.id(held.number), limit: held.limit };
            match permits.last_mut() {
                Some((last, of_last)) if *last == &held.key => of_last.push(permit),
                _ => permits.push((&held.key, vec![permit])),
            }
        }
        let of_keys = permits.iter().map(|(key, permits)| (*key, permits.as_slice()));
        let call = Scripts::shared().renew(of_keys, shared.expiry.0);
        let deadline = Deadline::after(shared.expiry.call(), shared.now());
        shared.events.tally.renewals.add();
        let key = self.group.first().map(|held| held.key.clone()).unwrap_or_default();
        let (outcome, sent) = shared.call(&key, call, deadline, (Gate::Open, Duration::ZERO)).await;
        let sent = sent.unwrap_or(deadline.since());
        let number = self.group.len();
        let outcome: Outcome<_> =
            outcome.and_then(|reply| Renewed::read(&reply, number).map_err(Arc::new));
        let (renewed, error) = match outcome {
            Ok(replies) => {
                let mut error = None;
                let renewed = replies
                    .into_iter()
                    .map(|reply| reply.map_err(|failed| error = Some(Arc::new(failed))).ok());
                (renewed.collect(), error)
            }
            Err(error) => (vec![None; self.group.len()], Some(error)),
        };
        let Changes { due, leaves, lost, restored } =
            shared.table.settle(&self.group, renewed, sent);
        if restored > 0 {
            shared.report(EventKind::PermitsRestored(restored), &key);
        }
        shared.report_lost(lost, &key, BY_REPLY);
        shared.leave(leaves);
        self.group = due;
        error
    }
}

impl<C: ScriptClient> Drop for Renewal<C> {
    fn drop(&mut self) {
        // Some are left if the task was dropped with its runtime.
        if !self.group.is_empty() {
            self.shared.leave(self.shared.table.abandon(&self.group));
        }
    }
}
