//! Permits that are given back: those of one moment in one call, which nobody waits for, and again until they expire.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    leave::{Leave, Waiting},
    shared::{Gate, Shared},
};
use crate::{
    call::{
        deadline::Deadline,
        queue::{QueueClaim, let_ready_tasks_run},
    },
    client::{
        ScriptClient,
        faults::{Fault, reported},
    },
    events::EventKind,
    scripts::{Scripts, in_flight::read_leave},
};

/// The time after a call that failed until the next one, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl<C: ScriptClient> Shared<C> {
    /// Gives permits back, in one call with others of the same moment.
    pub(super) fn leave(self: &Arc<Self>, leaves: impl IntoIterator<Item = Leave>) {
        for leave in leaves {
            let _operating = self.under_way.begin();
            self.wait_to_leave(Waiting { leave, pause: FIRST_PAUSE, _operating });
        }
    }

    fn wait_to_leave(self: &Arc<Self>, waiting: Waiting) {
        if let Some(claim) = self.leaves.push(waiting) {
            self.client.spawn(Arc::clone(self).send_leaves(claim));
        }
    }

    async fn send_leaves(self: Arc<Self>, claim: QueueClaim<Waiting>) {
        let_ready_tasks_run().await;
        for group in self.groups(claim.take(), |waiting| &waiting.leave.key) {
            let shared = Arc::clone(&self);
            self.client.spawn(async move { shared.send_group(group).await });
        }
    }

    /// Sends a call for permits, sorted by their keys. If it fails, they wait for the next one.
    async fn send_group(self: Arc<Self>, group: Vec<Waiting>) {
        let mut ids: Vec<(&Bytes, Vec<Bytes>)> = Vec::new();
        for Waiting { leave: Leave { key, number, .. }, .. } in &group {
            match ids.last_mut() {
                Some((last, of_last)) if *last == key => of_last.push(self.ids.id(*number)),
                _ => ids.push((key, vec![self.ids.id(*number)])),
            }
        }
        let Some((key, _)) = ids.first() else { return };
        let key = Bytes::clone(key);
        let call = Scripts::shared().leave(ids.iter().map(|(key, ids)| (*key, ids.as_slice())));
        let deadline = Deadline::after(self.expiry.call(), self.now());
        let read = |reply: &_| read_leave(reply, ids.len());
        let (outcome, _) =
            self.call(&key, (call, read), deadline, (Gate::Breaker, Duration::ZERO)).await;
        // A request may have been refused before the call was executed.
        ids.iter().for_each(|(key, _)| self.full.comes_back(key));
        let Err(error) = outcome else { return };
        if error.fault() == Fault::CrossSlot && ids.len() > 1 {
            self.stops_spanning();
        } else {
            let pause = group.iter().map(|waiting| waiting.pause).max().unwrap_or(FIRST_PAUSE);
            self.client.sleep(pause).await;
        }
        let now = self.now();
        let (over, again): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|waiting| now >= waiting.leave.until);
        let not_lost = over.iter().filter(|waiting| !waiting.leave.is_lost).count();
        if not_lost > 0 {
            // There are at most as many as fit in a call.
            self.report(EventKind::ReleaseFailed(not_lost as u64, reported(&error)), &key);
        }
        for waiting in again {
            let pause = waiting.pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.wait_to_leave(Waiting { pause, ..waiting });
        }
    }
}
