//! What follows from an outcome: for the circuit breaker of its server, the events, and the caller.

use std::sync::Arc;

use limiter_core::Timestamp;

use super::{
    request::{Operation, Request},
    sender::Sender,
};
use crate::{
    client::{
        ScriptClient,
        circuit_breaker::Pass,
        faults::{CallError, Fault, Outcome, reported},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
};

impl<C: ScriptClient> Sender<C> {
    /// Reports and notes an outcome, and answers the caller if it still waits.
    pub(super) fn answer<O: Operation>(
        &self,
        mut request: Request<O>,
        mut outcome: Outcome<O::Output>,
        sent: Timestamp,
    ) {
        request.has_outcome();
        let Request { context, handle, key, .. } = &request;
        if let Err(error) = &outcome
            && request.operation.is_of_caller()
            && !request.is_late
        {
            let of = (&**context, &**handle, &**key);
            self.report_of(EventKind::StoreError(reported(error)), of);
            self.report_failure::<O>(error, of);
        }
        // Not by a reply that came too late for its caller.
        if O::DECIDES && outcome.is_ok() && !request.caller.is_closed() {
            context.outage_log.ends(handle.policy.name(), || self.node_of(key));
        }
        O::note(&request, context, sent, &mut outcome);
        request.answer(outcome);
    }

    /// Answers requests whose call was not executed, and for which no time is left to send it again.
    pub(super) fn give_up<O: Operation>(&self, requests: Vec<Request<O>>) {
        let now = self.context.now();
        for mut request in requests {
            if let Some(error) = request.not_executed.take() {
                self.answer(request, Err(error), now);
            }
        }
    }

    /// Answers requests that the circuit breaker does not let pass.
    pub(super) fn refuse<O: Operation>(&self, requests: Vec<Request<O>>, error: &Arc<CallError>) {
        for mut request in requests {
            // The cause of a call that is not sent again because it has opened the breaker.
            let error = request.not_executed.take().unwrap_or_else(|| Arc::clone(error));
            let Request { context, handle, key, .. } = &request;
            context.events.tally.short_circuited.add();
            self.report_failure::<O>(&error, (context, handle, key));
            request.answer(Err(error));
        }
    }

    /// Reports what a failure means for an operation, besides the error.
    pub(super) fn report_failure<O: Operation>(
        &self,
        error: &Arc<CallError>,
        of: (&Context, &Handle, &[u8]),
    ) {
        if let Some(kind) = O::failure(error) {
            self.report_of(kind, of);
        }
    }

    /// Reports the outcome of a call to the circuit breaker, whatever the number of requests in it.
    pub(super) fn note<T>(&self, pass: &Pass, key: &[u8], outcomes: &[Outcome<T>]) {
        // The first error by which the server failed, or the first one.
        let errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let error = errors.min_by_key(|error| error.fault().server_failed() == Some(false));
        if error.is_some_and(|error| error.fault() == Fault::InvalidReply) {
            self.client.replace_connection(key);
        }
        self.breaker.note(pass, error.map(|error| &**error));
    }

    /// Counts an event, and reports it to the observer.
    pub(crate) fn report(&self, kind: EventKind, handle: &Handle, key: &[u8]) {
        self.report_of(kind, (&self.context, handle, key));
    }

    /// Counts an event of a limiter on the connection, and reports it to its observer.
    fn report_of(&self, kind: EventKind, (context, handle, key): (&Context, &Handle, &[u8])) {
        context.events.report(kind, handle.policy.name(), || self.node_of(key));
    }

    /// Logs that the store has not decided a check.
    #[cold]
    pub(crate) fn log_outage(&self, error: &CallError, handle: &Handle, key: &[u8]) {
        self.context.outage_log.fails(handle.policy.name(), self.node_of(key), error);
    }

    /// Returns whether a call for the key may be sent now.
    pub(crate) fn may_pass(&self, key: &[u8]) -> bool {
        self.breaker.refuses(|| self.client.server_of(key)).is_none()
    }

    /// Stops sending batches, because the server is a node of a cluster.
    pub(crate) fn stop_batches(&self, key: &[u8]) {
        if self.line.becomes_node_of_cluster() {
            let (policy, node) = (self.context.policy.name(), self.node_of(key));
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
    pub(super) fn server_name(&self, key: &[u8]) -> String {
        self.node_of(key).map_or_else(|| "Redis".to_owned(), |node| format!("Redis at {node}"))
    }

    /// Returns the name of the server that has the key, if there are several.
    fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        self.client.server_of(key).map(|(_, name)| name)
    }
}
