//! What follows from an outcome: for the events, the caller, and later calls.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use limiter_core::Timestamp;

use super::{
    operation::{Operation, Progress, Request},
    sender::Sender,
};
use crate::{
    client::{
        ScriptClient,
        faults::{CallError, Outcome, reported},
    },
    events::{EventKind, Events},
};

impl<C: ScriptClient> Sender<C> {
    /// Reports and notes an outcome, and answers the caller if it still waits.
    pub(super) fn answer<O: Operation>(
        &self,
        request: Request<O>,
        outcome: Outcome<O::Output>,
        sent: Timestamp,
    ) {
        let Request { operation, caller, progress, operating, .. } = request;
        let (is_late, of) = (Progress::is_over(progress.ends()), operation.events());
        match &outcome {
            Err(error) if operation.is_of_caller() && !is_late => {
                self.report_failed::<O>(error, of, operation.key());
            }
            // Not by a reply that came too late for its caller.
            Ok(_) if !caller.is_closed() => of.0.replied(of.1, || self.node_of(operation.key())),
            _ => {}
        }
        operation.note(&outcome, sent, is_late);
        // What it forgets at its end is forgotten before the caller knows the outcome.
        drop(operation);
        drop(caller.send(outcome));
        drop(operating);
    }

    /// Sends the caller the error of a request that is not sent because the circuit breaker is open, or that of the first
    /// call.
    pub(super) fn refuse<O: Operation>(&self, request: Request<O>, refused: &Arc<CallError>) {
        let Request { operation, caller, not_executed, .. } = request;
        let error = not_executed.unwrap_or_else(|| Arc::clone(refused));
        self.short_circuited::<O>(&error, operation.events(), operation.key());
        drop(operation);
        drop(caller.send(Err(error)));
    }

    /// Counts a request that the circuit breaker has refused.
    pub(super) fn short_circuited<O: Operation>(
        &self,
        error: &Arc<CallError>,
        (events, policy): (&Arc<Events>, &str),
        key: &[u8],
    ) {
        events.refused(error, policy, self.node_of(key));
        if let Some(kind) = O::failure(error) {
            events.report(kind, policy, self.node_of(key));
        }
    }

    /// Reports that an operation failed.
    pub(super) fn report_failed<O: Operation>(
        &self,
        error: &Arc<CallError>,
        (events, policy): (&Arc<Events>, &str),
        key: &[u8],
    ) {
        let kinds = [Some(EventKind::StoreError(reported(error))), O::failure(error)];
        for kind in kinds.into_iter().flatten() {
            events.report(kind, policy, self.node_of(key));
        }
    }

    /// Counts an event of the limiter, and reports it.
    pub(crate) fn report(&self, kind: EventKind, policy: &str, key: &[u8]) {
        self.events.report(kind, policy, self.node_of(key));
    }

    /// Returns whether a call for the key may be sent now.
    pub(crate) fn may_pass(&self, key: &[u8]) -> bool {
        self.breaker.refuses(|| self.client.server_of(key)).is_none()
    }

    /// Stops sending calls with keys in several slots, because the server is a node of a cluster.
    pub(super) fn stop_batches(&self, key: &[u8]) {
        if !self.line.is_of_one_slot.swap(true, Relaxed) {
            let (policy, node) = (self.events.name(), self.node_of(key));
            let node = node.as_deref();
            tracing::warn!(
                policy,
                node,
                "the server refused a batch with CROSSSLOT and checks are sent one by one: it is a \
                 node of a cluster; use redis-cluster://"
            );
        }
    }

    /// Returns what errors call the server that has the key.
    pub(crate) fn server_name(&self, key: &[u8]) -> String {
        self.node_of(key).map_or_else(|| "Redis".to_owned(), |node| format!("Redis at {node}"))
    }

    /// Returns the name of the server that has the key, if there are several.
    pub(crate) fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        self.client.server_of(key).map(|(_, name)| name)
    }
}
