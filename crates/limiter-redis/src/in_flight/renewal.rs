//! Renews permits that are held for longer than a third of their expiry, and sees which are lost.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{
    permit_state::PermitState,
    shared::{BY_CLOCK, MAX_PERMITS, Shared},
    table::Changes,
};
use crate::{
    client::{
        ScriptClient,
        faults::{Fault, reported},
    },
    events::EventKind,
};

/// Why permits are lost by a reply.
const BY_REPLY: &str = "the store has lost them, and others have taken their places";

impl<C: ScriptClient> Shared<C> {
    /// Starts the task that renews permits, which ends when none is left.
    pub(super) fn watch(self: &Arc<Self>) {
        let watch = Watch { shared: Arc::downgrade(self), is_over: false };
        self.sender.client.spawn(watch.run());
    }

    /// Starts to renew permits, on each node in calls that have [`MAX_PERMITS`] permits at most together, so that other
    /// commands don't wait for long.
    fn renew(self: &Arc<Self>, due: Vec<Arc<PermitState>>) {
        let mut nodes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for held in due {
            let node = self.sender.client.server_of(&held.key).map(|(number, _)| number);
            nodes.entry(node).or_default().push(held);
        }
        for due in nodes.into_values() {
            self.renew_on_node(due, &Arc::new(Semaphore::new(MAX_PERMITS)));
        }
    }

    fn renew_on_node(self: &Arc<Self>, due: Vec<Arc<PermitState>>, room: &Arc<Semaphore>) {
        for permits in self.groups(due, |held| &held.key) {
            let group = Group { shared: Arc::clone(self), permits };
            self.sender.client.spawn(group.renew(Arc::clone(room)));
        }
    }
}

/// The task that renews permits. If it is dropped with its runtime, the next permit starts another one.
struct Watch<C: ScriptClient> {
    shared: Weak<Shared<C>>,
    is_over: bool,
}

impl<C: ScriptClient> Watch<C> {
    /// Renews permits that are old enough, all at the same moments, so that they share calls.
    async fn run(mut self) {
        loop {
            let Some(shared) = self.shared.upgrade() else { return };
            let now = shared.sender.now();
            // Until the renewals have begun.
            let operating = shared.sender.under_way.begin();
            let (Changes { due, leaves, lost, .. }, next) = shared.table.advance(now);
            if let Some(first) = lost.first() {
                shared.report_lost(lost.len(), &first.key, BY_CLOCK);
            }
            shared.leave(leaves);
            shared.renew(due);
            let Some(next) = next else {
                self.is_over = true;
                return;
            };
            let sleep = shared.sender.client.sleep(next.saturating_since(now));
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

/// Permits that share a call.
struct Group<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    permits: Vec<Arc<PermitState>>,
}

impl<C: ScriptClient> Group<C> {
    /// Renews the permits as soon as there is room for their call. Those that fail are renewed again after a pause, and no
    /// others wait for them.
    async fn renew(mut self, room: Arc<Semaphore>) {
        // No more than a call may have.
        let permits = u32::try_from(self.permits.len()).unwrap_or(u32::MAX);
        let place = room.acquire_many(permits).await;
        let pause = self.attempt().await;
        drop(place);
        let Some(pause) = pause else { return };
        if !pause.is_zero() {
            self.shared.sender.client.sleep(pause).await;
        }
        self.shared.renew_on_node(mem::take(&mut self.permits), &room);
    }

    /// Sends a call, and keeps the permits whose state its reply does not show. Returns when to renew these again, if
    /// there are any.
    async fn attempt(&mut self) -> Option<Duration> {
        let shared = &self.shared;
        // Permits that are dropped meanwhile are given back after this.
        let _operating = shared.sender.under_way.begin();
        let sent = shared.sender.now();
        self.permits = shared.table.begin(&self.permits, sent);
        let key = self.permits.first()?.key.clone();
        shared.events().0.tally.renewals.add();
        let permits = self.permits.iter().map(|held| (&held.key, held.number, held.limit));
        let (renewed, error): (Vec<_>, _) = match shared.call_for::<true>(permits).await {
            Ok(replies) => {
                let error = replies.iter().find_map(|reply| reply.as_ref().err()).cloned();
                (replies.into_iter().map(Result::ok).collect(), error)
            }
            Err(error) => (vec![None; self.permits.len()], Some(error)),
        };
        let Changes { due, leaves, lost, restored } =
            shared.table.settle(&self.permits, renewed, sent);
        if restored > 0 {
            shared.report(EventKind::PermitsRestored(restored), &key);
        }
        shared.report_lost(lost.len(), &key, BY_REPLY);
        shared.leave(leaves);
        self.permits = due;
        let shared = &self.shared;
        let error = error?;
        let can_be_split = self.permits.iter().any(|held| held.key != key);
        if error.fault() == Fault::CrossSlot && can_be_split {
            return Some(Duration::ZERO);
        }
        shared.report(EventKind::StoreError(reported(&error)), &key);
        Some(shared.expiry.pause())
    }
}

impl<C: ScriptClient> Drop for Group<C> {
    fn drop(&mut self) {
        // Some are left if the task was dropped with its runtime.
        self.shared.leave(self.shared.table.abandon(&self.permits));
    }
}
