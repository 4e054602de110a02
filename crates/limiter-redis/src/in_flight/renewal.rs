//! Renews permits that are held for longer than a third of their expiry, and sees which are lost.

use std::{
    collections::{BTreeMap, VecDeque},
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
        faults::{CallError, Fault, Outcome, reported},
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

    /// Starts to renew permits: on each node by one call after the other, so that other commands don't wait for long.
    fn renew(self: &Arc<Self>, due: Vec<Arc<PermitState>>) {
        let mut nodes: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        for group in self.groups(due, |held| &held.key) {
            let key = group.first().map_or(&[][..], |held| &held.key);
            let node = self.client.server_of(key).map(|(number, _)| number);
            nodes.entry(node).or_default().push_back(group);
        }
        for groups in nodes.into_values() {
            let operating = self.under_way.begin();
            let renewals =
                Renewals { shared: Arc::clone(self), groups, group: Vec::new(), operating };
            self.client.spawn(renewals.run());
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
            let now = shared.now();
            // Until the renewals have begun.
            let operating = shared.under_way.begin();
            let (Changes { due, leaves, lost, .. }, next) = shared.table.advance(now);
            if lost > 0 {
                let key = leaves.first().map(|leave| leave.key.clone()).unwrap_or_default();
                shared.report_lost(lost, &key, BY_CLOCK);
            }
            shared.leave(leaves);
            shared.renew(due);
            let Some(next) = next else {
                self.is_over = true;
                return;
            };
            let sleep = shared.client.sleep(next.saturating_since(now));
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

/// The renewals of a node's permits, each repeated until it succeeds or none of its permits is left.
struct Renewals<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    /// Those that wait.
    groups: VecDeque<Vec<Arc<PermitState>>>,
    /// The permits of the call that is outstanding.
    group: Vec<Arc<PermitState>>,
    /// While calls are under way, because permits that are dropped meanwhile are given back after them.
    operating: Option<Operating>,
}

impl<C: ScriptClient> Renewals<C> {
    async fn run(mut self) {
        while let Some(group) = self.groups.pop_front() {
            let shared = Arc::clone(&self.shared);
            self.group = shared.table.begin(&group, shared.now());
            let Some(first) = self.group.first() else { continue };
            let key = first.key.clone();
            let Some(error) = self.attempt().await else { continue };
            shared.report(EventKind::StoreError(reported(&error)), &key);
            let again = mem::take(&mut self.group);
            if error.fault() == Fault::CrossSlot && again.iter().any(|held| held.key != key) {
                shared.stops_spanning();
                self.groups.extend(shared.groups(again, |held| &held.key));
                continue;
            }
            self.groups.push_back(again);
            self.operating = None;
            shared.client.sleep(shared.expiry.pause()).await;
            self.operating = shared.under_way.begin();
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
        let number = self.group.len();
        let read = |reply: &_| Renewed::read(reply, number);
        let (outcome, sent): (Outcome<_>, _) =
            shared.call(&key, (call, read), deadline, (Gate::Open, Duration::ZERO)).await;
        let sent = sent.unwrap_or(deadline.since());
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

impl<C: ScriptClient> Drop for Renewals<C> {
    fn drop(&mut self) {
        // Some are left if the task was dropped with its runtime.
        for group in self.groups.iter().chain([&self.group]).filter(|group| !group.is_empty()) {
            self.shared.leave(self.shared.table.abandon(group));
        }
    }
}
