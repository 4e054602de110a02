//! Permits that are taken.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use limiter_core::{Entry, Error, ErrorKind, Occupancy, Source, Timestamp};

use super::{
    full::Ticket, leave::Leave, permit::Permit, permit_state::PermitState, shared::Shared,
};
use crate::{
    call::{
        operation::{Batched, Operation},
        queue::Queue,
        request::Request,
    },
    client::{
        ScriptCall, ScriptClient, ScriptReply,
        faults::{CallError, Fault, Outcome, reported},
    },
    events::{EventKind, Events},
    scripts::{
        Scripts,
        in_flight::{EnterReply, PermitId},
    },
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

    fn id(&self) -> Bytes {
        self.permit.map_or(Bytes::new(), |(number, _)| self.shared.ids.id(number))
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
        Scripts::shared().begin_enter(self.shared.expiry.0)
    }

    fn add(&self, call: &mut ScriptCall) {
        let permit = PermitId { key: self.key.clone(), id: self.id(), limit: self.limit };
        Scripts::add_entering(call, permit);
    }

    fn read(&self, reply: &ScriptReply, sent: Timestamp) -> Option<Self::Output> {
        let EnterReply { is_admitted, held } = EnterReply::read(reply)?;
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
        if let Some(held) = self.full.find(&key, limit, self.sender.now()) {
            tally.cached.add();
            return Ok(Entry::refused(Occupancy::new(held, limit).with_source(Source::Cache)));
        }
        // Before the request is sent, so that a permit whose reply is lost can be given back.
        let permit = Some((self.next.fetch_add(1, Relaxed), self.full.ticket(&key)));
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
}
