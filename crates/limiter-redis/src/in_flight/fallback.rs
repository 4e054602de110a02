//! Answers by this process's share, after the store has returned an error.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bytes::Bytes;
use limiter_core::{Entry, Error, HeldPermit, InFlightPermit, Occupancy, Source};

use super::shared::Shared;
use crate::{
    client::{ScriptClient, faults::CallError},
    events::EventKind,
};

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

impl<C: ScriptClient> Shared<C> {
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
