//! Permits that are taken: from the store, or of this process's share after the store has returned an error.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use limiter_core::{
    Entry, Error, ErrorKind, HeldPermit, InFlightPermit, Occupancy, Source, Timestamp,
};

use super::{
    full::Ticket, permit::Permit, permit_state::PermitState, shared::Shared, table::Leave,
};
use crate::{
    call::{
        operation::{Batched, Operation, Request},
        queue::Queue,
    },
    client::{
        ScriptCall, ScriptClient, ScriptReply,
        faults::{CallError, Fault, Outcome, reported},
    },
    events::{EventKind, Events},
    scripts::{Scripts, duration},
};

/// The most requests in a call, as of checks.
const MAX_BATCH: usize = 32;

const LATE: &str = "the reply came after the permit's expiry; the process was stopped";

/// Takes a permit, or only asks how many are held.
pub(super) struct Enter<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    key: Bytes,
    limit: u32,
    /// The permit's number, which is part of its id, and a ticket for a denial.
    permit: Option<(u64, Ticket)>,
}

/// Those that wait to be sent.
pub(super) type Enters<C> = Arc<Queue<Request<Enter<C>>>>;

impl<C: ScriptClient> Enter<C> {
    pub(super) fn asking(shared: &Arc<Shared<C>>, key: Bytes, limit: u32) -> Self {
        Self { shared: Arc::clone(shared), key, limit, permit: None }
    }
}

impl<C: ScriptClient> Operation for Enter<C> {
    /// How many permits are held, and the one that was taken, which is given back when it is dropped.
    type Output = (u32, Option<Permit<C>>);

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        self.shared.events()
    }

    fn begin(&self) -> ScriptCall {
        ScriptCall::of(&Scripts::shared().enter, vec![duration(self.shared.expiry.0)])
    }

    fn add(&self, call: &mut ScriptCall) {
        let Self { shared, key, limit, permit } = self;
        // With an empty id, none is taken.
        let id = permit.map_or(Bytes::new(), |(number, _)| shared.ids.id(number));
        call.keys.push(key.clone());
        call.arguments.extend([limit.to_string().into(), id]);
    }

    fn read(&self, reply: &ScriptReply, sent: Timestamp) -> Option<Self::Output> {
        let (is_admitted, held) = read_entry(reply)?;
        let Self { shared, key, limit, permit } = self;
        let taken = permit.filter(|_| is_admitted).map(|(number, _)| {
            let state = PermitState::new(number, key.clone(), *limit, shared.expiry.ends(sent));
            if shared.table.insert(&state, sent) {
                shared.watch();
            }
            Permit::new(shared, state)
        });
        Some((held, taken))
    }

    fn note(&self, outcome: &Outcome<Self::Output>, sent: Timestamp, _: bool) {
        let Self { shared, key, limit, permit: Some((number, ticket)) } = self else { return };
        match outcome {
            Ok((held, None)) => {
                shared.full.insert(*ticket, key, (*limit, *held), (sent, shared.sender.now()));
            }
            // It may have been taken.
            Err(error) if error.fault().kind() != ErrorKind::Unavailable => {
                let (number, until) = (*number, shared.expiry.forgotten(sent));
                shared.leave([Leave { key: key.clone(), number, until, is_lost: false }]);
            }
            _ => {}
        }
    }
}

impl<C: ScriptClient> Batched for Enter<C> {
    type Kind = Duration;

    fn kind(&self) -> Duration {
        self.shared.expiry.0
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }
}

/// A permit that the store does not count, while it fails.
struct LocalPermit<C: ScriptClient> {
    shared: Arc<Shared<C>>,
    key: Bytes,
}

impl<C: ScriptClient> HeldPermit for LocalPermit<C> {}

impl<C: ScriptClient> Drop for LocalPermit<C> {
    fn drop(&mut self) {
        self.shared.table.remove_local(&self.key);
    }
}

/// Returns whether a permit was taken or could be, and how many are held.
pub(crate) fn read_entry(reply: &ScriptReply) -> Option<(bool, u32)> {
    let &[decided @ 0..=1, held] = &*reply.integers()? else { return None };
    Some((decided == 1, u32::try_from(held).ok()?))
}

impl<C: ScriptClient> Shared<C> {
    /// Takes a permit, if fewer than `limit` are held.
    pub(super) async fn enter(
        self: Arc<Self>,
        enters: Enters<C>,
        key: Bytes,
        limit: u32,
    ) -> Result<Entry, Error> {
        let (events, name) = self.events();
        let tally = &events.tally;
        let ticket = match self.full.begin(&key, limit, self.sender.now()) {
            Ok(ticket) => ticket,
            Err(held) => {
                tally.cached.add();
                return Ok(Entry::refused(Occupancy::new(held, limit).with_source(Source::Cache)));
            }
        };
        // Before the request is sent, so that a permit whose reply is lost can be given back.
        let permit = Some((self.next.fetch_add(1, Relaxed), ticket));
        let enter = Enter { shared: Arc::clone(&self), key: key.clone(), limit, permit };
        let (held, permit) = match self.sender.operate_with_others(&enters, name, enter).await {
            Ok((held, Some(permit))) => (held, permit),
            Ok((held, None)) => {
                tally.refused.add();
                return Ok(Entry::refused(Occupancy::new(held, limit)));
            }
            Err(error) => return self.enter_without_store(key, limit, error),
        };
        if let Some(permit) = permit.used() {
            tally.admitted.add();
            return Ok(Entry::admitted(permit, Occupancy::new(held, limit)));
        }
        let error = Arc::new(CallError::new(Fault::NoReply, LATE));
        self.sender.report(EventKind::StoreError(reported(&error)), name, &key);
        self.enter_without_store(key, limit, error)
    }

    /// Returns the share's answer to a request, or the error if there is no share.
    pub(super) fn enter_without_store(
        self: &Arc<Self>,
        key: Bytes,
        limit: u32,
        error: Arc<CallError>,
    ) -> Result<Entry, Error> {
        let Some(share) = self.share(limit) else { return Err(self.named(error)) };
        self.report(EventKind::DecidedLocally, &key);
        Ok(match self.table.add_local(&key, share) {
            Ok(held) => {
                let permit = LocalPermit { shared: Arc::clone(self), key };
                Entry::admitted(InFlightPermit::new(permit), local(held, share))
            }
            Err(held) => Entry::refused(local(held, share)),
        })
    }

    /// Returns how many permits this process holds of its share, or the error if there is no share.
    pub(super) fn peek_without_store(
        &self,
        key: &[u8],
        limit: u32,
        error: Arc<CallError>,
    ) -> Result<Occupancy, Error> {
        let Some(share) = self.share(limit) else { return Err(self.named(error)) };
        self.report(EventKind::DecidedLocally, key);
        Ok(local(self.table.held_of(key), share))
    }

    /// Returns the error for a caller, with the limiter's name.
    pub(super) fn named(&self, error: Arc<CallError>) -> Error {
        let message = format!("limiter {:?}: {error}", self.events().1);
        Error::new(error.fault().kind(), message).with_source(error)
    }

    /// Returns this process's share of a limit, if it has one: one at least, unless the limit is zero.
    fn share(&self, limit: u32) -> Option<u32> {
        let processes = self.processes.as_ref()?.load(Relaxed);
        Some((limit / processes.max(1)).max(limit.min(1)))
    }
}

fn local(held: u32, share: u32) -> Occupancy {
    Occupancy::new(held, share).with_source(Source::Local)
}
