//! Answers by the failure policy, after the store has returned an error.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bytes::Bytes;
use limiter_core::{Entry, Error, HeldPermit, InFlightPermit, Occupancy, Source};

use super::shared::Shared;
use crate::{client::ScriptClient, events::FallbackKind, local::fallback::FailurePolicy};

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
    /// Returns the fallback's answer to a request, or the error.
    pub(super) fn enter_without_store(
        self: &Arc<Self>,
        key: Bytes,
        limit: u32,
        error: Error,
    ) -> Result<Entry, Error> {
        let (entry, kind) = match self.settings.failure_policy {
            FailurePolicy::ReturnError => return Err(error),
            FailurePolicy::Allow if limit > 0 => {
                (Entry::uncounted(unknown(0, limit)), FallbackKind::Allow)
            }
            FailurePolicy::Allow | FailurePolicy::Deny => {
                (Entry::refused(unknown(limit, limit)), FallbackKind::Deny)
            }
            FailurePolicy::Local { .. } => {
                let share = self.share(limit);
                let entry = match self.table.add_local(&key, share) {
                    Ok(held) => {
                        let permit = LocalPermit { shared: Arc::clone(self), key: key.clone() };
                        Entry::admitted(InFlightPermit::new(permit), local(held, share))
                    }
                    Err(held) => Entry::refused(local(held, share)),
                };
                (entry, FallbackKind::Local)
            }
        };
        self.fell_back(kind, &error, &key);
        Ok(entry)
    }

    /// Returns how many permits the fallback finds, or the error.
    pub(super) fn peek_without_store(
        &self,
        key: &[u8],
        limit: u32,
        error: Error,
    ) -> Result<Occupancy, Error> {
        let (occupancy, kind) = match self.settings.failure_policy {
            FailurePolicy::ReturnError => return Err(error),
            FailurePolicy::Allow => (unknown(0, limit), FallbackKind::Allow),
            FailurePolicy::Deny => (unknown(limit, limit), FallbackKind::Deny),
            FailurePolicy::Local { .. } => {
                (local(self.table.held_of(key), self.share(limit)), FallbackKind::Local)
            }
        };
        self.fell_back(kind, &error, key);
        Ok(occupancy)
    }

    /// Returns this process's share of a limit: one at least, unless the limit is zero.
    fn share(&self, limit: u32) -> u32 {
        (limit / self.processes.load(Relaxed).max(1)).max(limit.min(1))
    }
}

fn unknown(held: u32, limit: u32) -> Occupancy {
    Occupancy::new(held, limit).with_source(Source::Failure)
}

fn local(held: u32, share: u32) -> Occupancy {
    Occupancy::new(held, share).with_source(Source::Local)
}
