//! Permits that are taken: those of one moment in one call.

use std::{
    future::Future,
    iter,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use limiter_core::{Entry, Error, ErrorKind, Occupancy, Source, Timestamp};

use super::{
    enter::{Enter, Taken},
    leave::Leave,
    permit::Permit,
    permit_state::PermitState,
    shared::{Gate, Shared},
};
use crate::{
    call::queue::{QueueClaim, let_ready_tasks_run},
    client::{
        ScriptClient,
        faults::{CallError, Fault, Outcome},
    },
    scripts::{
        Scripts,
        in_flight::{EnterReply, Entering},
    },
};

/// The most requests in a call, as of checks.
const MAX_BATCH: usize = 32;

const LATE: &str = "the reply came after the permit's expiry; the process was stopped";

impl<C: ScriptClient> Shared<C> {
    /// Takes a permit, if fewer than `limit` are held.
    pub(super) async fn enter(self: Arc<Self>, key: Bytes, limit: u32) -> Result<Entry, Error> {
        let tally = &self.events.tally;
        if let Some(held) = self.full.find(&key, limit, self.now()) {
            tally.cached.add();
            return Ok(Entry::refused(Occupancy::new(held, limit).with_source(Source::Cache)));
        }
        let outcome = self.ask(&key, |asked| {
            // Before the request is sent, so that a permit whose reply is lost can be given back.
            let number = self.next.fetch_add(1, Relaxed);
            let ticket = self.full.ticket(&key);
            let enter = Enter { key: key.clone(), number, limit, ticket, asked };
            if let Some(claim) = self.enters.push(enter) {
                self.client.spawn(Arc::clone(&self).send_enters(claim));
            }
        });
        match outcome.await {
            Ok((held, None)) => {
                tally.refused.add();
                Ok(Entry::refused(Occupancy::new(held, limit)))
            }
            Ok((held, Some(permit))) => match permit.used() {
                Some(permit) => {
                    tally.admitted.add();
                    Ok(Entry::admitted(permit, Occupancy::new(held, limit)))
                }
                None => {
                    let error = CallError::new(Fault::NoReply, LATE);
                    self.enter_without_store(key, limit, self.named(Arc::new(error)))
                }
            },
            Err(error) => self.enter_without_store(key, limit, self.named(error)),
        }
    }

    async fn send_enters(self: Arc<Self>, claim: QueueClaim<Enter>) {
        let_ready_tasks_run().await;
        let mut waiting = claim.take();
        let most = if self.spans_slots() { MAX_BATCH } else { 1 };
        while !waiting.is_empty() {
            // The last ones first, because Tokio runs the task that was spawned last first.
            let group = waiting.split_off(waiting.len().saturating_sub(most));
            self.client.spawn(Arc::clone(&self).send_group_of_enters(group));
        }
    }

    /// Sends requests in one call, and each alone if they can't share one.
    async fn send_group_of_enters(self: Arc<Self>, mut group: Vec<Enter>) {
        // Nothing was sent for a caller that has left.
        group.retain(|enter| !enter.asked.has_left());
        let Some(first) = group.first() else { return };
        let (key, deadline, number) = (first.key.clone(), first.asked.deadline, group.len());
        let entering = group.iter().map(|Enter { key, number, limit, .. }| Entering {
            key: key.clone(),
            id: self.ids.id(*number),
            limit: *limit,
        });
        let call = Scripts::shared().enter(entering, self.expiry.0);
        let read = |reply: &_| EnterReply::read_all(reply, number);
        let passing = (Gate::Breaker, self.breaker.silence());
        let (outcome, sent) = self.call(&key, (call, read), deadline, passing).await;
        match outcome {
            Ok(replies) => {
                for (enter, reply) in group.into_iter().zip(replies) {
                    self.entered(enter, reply.map_err(Arc::new), sent);
                }
            }
            Err(error) if number > 1 && error.fault() == Fault::CrossSlot => {
                self.stops_spanning();
                for enter in group {
                    self.client.spawn(Arc::clone(&self).send_group_alone(enter));
                }
            }
            Err(error) => {
                for (enter, error) in group.into_iter().zip(iter::repeat(error)) {
                    self.entered(enter, Err(error), sent);
                }
            }
        }
    }

    /// Sends one request. Boxed, because otherwise the type of the future contains itself.
    fn send_group_alone(self: Arc<Self>, enter: Enter) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.send_group_of_enters(vec![enter]))
    }

    /// Notes the outcome of a request, and gives it to the caller.
    fn entered(
        self: &Arc<Self>,
        enter: Enter,
        outcome: Outcome<EnterReply>,
        sent: Option<Timestamp>,
    ) {
        let Enter { key, number, limit, ticket, asked } = enter;
        let was_sent = sent.is_some();
        let sent = sent.unwrap_or(asked.deadline.since());
        if let Err(error) = &outcome
            && error.fault().kind() != ErrorKind::Unavailable
        {
            // It may have been taken.
            let until = self.expiry.forgotten(sent);
            self.leave([Leave { key: key.clone(), number, until, is_lost: false }]);
        }
        let outcome = outcome.map(|reply| {
            if !reply.is_admitted {
                self.full.insert(ticket, &key, (limit, reply.held), (sent, self.now()));
            }
            let permit = reply.is_admitted.then(|| -> Box<dyn Taken> {
                let ends = self.expiry.ends(sent);
                let held = PermitState::new(number, key.clone(), limit, ends);
                if self.table.insert(&held, sent) {
                    self.watch();
                }
                // If the caller has left, this gives it back.
                Box::new(Permit::new(self, held))
            });
            (reply.held, permit)
        });
        self.conclude(&key, asked, outcome, was_sent);
    }
}
