//! Permits that are given back: those of one moment in one call, which nobody waits for, and again until they expire.

use std::{sync::Arc, time::Duration};

use super::{
    shared::{Shared, Waiting},
    table::Leave,
};
use crate::{
    call::queue::{QueueClaim, let_ready_tasks_run},
    client::{
        ScriptClient,
        faults::{Fault, reported},
    },
    events::EventKind,
};

/// The time after a call that failed until the next one, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl<C: ScriptClient> Shared<C> {
    /// Gives permits back, in one call with others of the same moment.
    pub(super) fn leave(self: &Arc<Self>, leaves: impl IntoIterator<Item = Leave>) {
        for leave in leaves {
            let _operating = self.sender.under_way.begin();
            self.wait_to_leave(Waiting { leave, pause: FIRST_PAUSE, _operating });
        }
    }

    fn wait_to_leave(self: &Arc<Self>, waiting: Waiting) {
        if let Some(claim) = self.leaves.push(waiting) {
            self.sender.client.spawn(Arc::clone(self).send_leaves(claim));
        }
    }

    async fn send_leaves(self: Arc<Self>, claim: QueueClaim<Waiting>) {
        let_ready_tasks_run().await;
        for group in self.groups(claim.take(), |waiting| &waiting.leave.key) {
            let shared = Arc::clone(&self);
            self.sender.client.spawn(async move { shared.send_group(group).await });
        }
    }

    /// Sends a call for permits, sorted by their keys. If it fails, they wait for the next one.
    async fn send_group(self: Arc<Self>, group: Vec<Waiting>) {
        let permits =
            group.iter().map(|Waiting { leave: Leave { key, number, .. }, .. }| (key, *number, 0));
        let outcome = self.call_for::<false>(permits).await;
        // A request may have been refused before the call was executed.
        group.iter().for_each(|waiting| self.full.comes_back(&waiting.leave.key));
        let failed = outcome.map(|replies| replies.into_iter().find_map(Result::err));
        let (Ok(Some(error)) | Err(error)) = failed else { return };
        let key = |waiting: Option<&Waiting>| waiting.map(|it| it.leave.key.clone());
        let can_be_split = key(group.first()) != key(group.last());
        if error.fault() != Fault::CrossSlot || !can_be_split {
            let pause = group.iter().map(|waiting| waiting.pause).max().unwrap_or(FIRST_PAUSE);
            self.sender.client.sleep(pause).await;
        }
        let now = self.sender.now();
        let (over, again): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|waiting| now >= waiting.leave.until);
        let not_lost = over.iter().filter(|waiting| !waiting.leave.is_lost);
        if let Some(Waiting { leave, .. }) = not_lost.clone().next() {
            // They fit in one call.
            let kind = EventKind::ReleaseFailed(not_lost.count() as u64, reported(&error));
            self.report(kind, &leave.key);
        }
        for waiting in again {
            let pause = waiting.pause.saturating_mul(2).min(LONGEST_PAUSE);
            self.wait_to_leave(Waiting { pause, ..waiting });
        }
    }
}
