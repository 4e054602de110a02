//! The one way to the store, and back: requests are collected, sent in calls within their deadline, and
//! answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    time::Duration,
};

use bytes::Bytes;
use limiter_core::{Cost, Error};
use tokio::sync::oneshot;

use super::{
    check::Check,
    deadline::{Deadline, run, timeout},
    line::Line,
    outcomes::outcomes,
    queue::{QueueClaim, let_ready_tasks_run},
    request::{MAX_UNDER_WAY, Operation, Request, UnderWay, call_of},
};
use crate::{
    client::{
        ScriptClient,
        circuit_breaker::CircuitBreaker,
        faults::{CallError, Fault, Outcome, named, reported},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
    scripts::{Charge, CheckReply},
};

/// Sends the requests of all handles of a limiter.
pub(crate) struct Sender<C> {
    pub(crate) client: C,
    pub(crate) context: Arc<Context>,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) under_way: Arc<UnderWay>,
    /// Shared by the limiters on the connection.
    pub(crate) line: Arc<Line>,
}

pub(crate) const RUNTIME_ENDED: &str = "the runtime was shut down while the answer was awaited";

impl<C: ScriptClient> Sender<C> {
    pub(crate) fn new(client: C, breaker: CircuitBreaker, context: Context) -> Self {
        Self {
            under_way: Arc::default(),
            line: breaker.line(),
            context: Arc::new(context),
            breaker,
            client,
        }
    }

    /// Sends a check, in one call with others of the same moment, and returns its answer. More permits than its cost
    /// may be `wanted`, as a lease.
    pub(crate) async fn check(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &Bytes,
        cost: Cost,
        wanted: u64,
    ) -> Result<CheckReply, Error> {
        let charge = Charge { cost, wanted, route: handle.plan.route(wanted) };
        let check = Check { charge, ticket: self.context.denials.ticket(key) };
        self.ask(handle, key, check, |request| {
            if !self.context.settings.batching || !self.may_span_slots() {
                self.spawn(vec![request]);
            } else if let Some(claim) = self.line.queue.push(request) {
                self.client.spawn(Arc::clone(self).send_queued(claim));
            }
        })
        .await
    }

    /// Sends another operation, and returns its answer.
    pub(crate) async fn operate<O: Operation>(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &Bytes,
        operation: O,
    ) -> Result<O::Output, Error> {
        self.ask(handle, key, operation, |request| self.spawn(vec![request])).await
    }

    /// Returns whether a call may have keys in several slots, also if checks are not sent in batches.
    pub(crate) fn may_span_slots(&self) -> bool {
        self.client.supports_batches() && !self.line.is_node_of_cluster()
    }

    /// Makes a request, and logs why the store has not decided it.
    async fn ask<O: Operation>(
        &self,
        handle: &Arc<Handle>,
        key: &Bytes,
        operation: O,
        start: impl FnOnce(Request<O>),
    ) -> Result<O::Output, Error> {
        let decides = O::DECIDES && operation.is_of_caller();
        self.request(handle, key, operation, start).await.map_err(|error| {
            if decides {
                self.log_outage(&error, handle, key);
            }
            named(handle.policy.name(), error)
        })
    }

    /// Starts a request if the circuit breaker lets it pass, and waits for its outcome, which another task
    /// sends and reports.
    async fn request<O: Operation>(
        &self,
        handle: &Arc<Handle>,
        key: &Bytes,
        operation: O,
        start: impl FnOnce(Request<O>),
    ) -> Outcome<O::Output> {
        // First, so that a call that is not made starts no task.
        if let Some(error) = self.breaker.refuses(|| self.client.server_of(key)) {
            self.context.events.tally.short_circuited.add();
            let error = Arc::new(error);
            self.report_failure::<O>(&error, (&self.context, handle, key));
            return Err(error);
        }
        let deadline = Deadline::after(self.context.settings.deadline, self.context.now());
        let is_of_caller = operation.is_of_caller();
        // The callers of a lease have deadlines of their own, and a grant that is late for all of them can be spent.
        let silence = if is_of_caller { Duration::ZERO } else { self.breaker.silence() };
        let (caller, outcome) = oneshot::channel();
        let is_reported = Arc::new(AtomicBool::new(false));
        let failed = match self.under_way.begin() {
            None => {
                let message = format!("{MAX_UNDER_WAY} operations are under way already");
                CallError::new(Fault::NotSent, message)
            }
            Some(operating) => {
                start(Request {
                    operation,
                    key: key.clone(),
                    context: Arc::clone(&self.context),
                    handle: Arc::clone(handle),
                    deadline,
                    not_executed: None,
                    caller,
                    is_reported: Arc::clone(&is_reported),
                    is_late: false,
                    operating,
                });
                match timeout(&self.client, deadline.of_caller(silence), outcome).await {
                    Some(Ok(outcome)) => return outcome,
                    Some(Err(_)) => CallError::new(Fault::NoReply, RUNTIME_ENDED),
                    // The call goes on, so that the circuit breaker learns of a late reply.
                    None => {
                        let error = deadline.no_reply(&self.server_name(key));
                        self.breaker.timed_out(&self.client.server_of(key), &error);
                        error
                    }
                }
            }
        };
        let failed = Arc::new(failed);
        if is_of_caller && !is_reported.swap(true, AcqRel) {
            self.report(EventKind::StoreError(reported(&failed)), handle, key);
            self.report_failure::<O>(&failed, (&self.context, handle, key));
        }
        Err(failed)
    }

    /// Sends the checks that wait, after all tasks that are ready could add theirs: those of one script and with equal
    /// deadlines in one call, whatever their limiters.
    async fn send_queued(self: Arc<Self>, claim: QueueClaim<Request<Check>>) {
        let_ready_tasks_run().await;
        let mut requests = claim.take();
        let kind =
            |request: &Request<Check>| (request.operation.charge.route, request.deadline.within());
        requests.sort_by_key(kind);
        while let Some(last) = requests.last().map(kind) {
            let of_others = requests.partition_point(|request| kind(request) < last);
            let alike = requests.get(of_others..).unwrap_or_default().iter();
            let most = alike.map(|request| request.handle.plan.max_batch()).min().unwrap_or(1);
            // The last ones first, because Tokio runs the task that was spawned last first.
            match of_others.max(requests.len().saturating_sub(most)) {
                0 => return self.send(requests).await,
                start => self.spawn(requests.split_off(start)),
            }
        }
    }

    fn spawn<O: Operation>(self: &Arc<Self>, requests: Vec<Request<O>>) {
        let sender = Arc::clone(self);
        self.client.spawn(async move { sender.send(requests).await });
    }

    /// Sends requests in one call, and answers their callers.
    ///
    /// Further calls are for requests that the server did not execute, once; and for each request alone, if they can't
    /// share a call.
    async fn send<O: Operation>(&self, requests: Vec<Request<O>>) {
        let is_cross_slot = |error: &CallError| error.fault() == Fault::CrossSlot;
        let mut calls = vec![requests];
        while let Some(mut requests) = calls.pop() {
            requests.retain(|request| !request.is_abandoned());
            let Some(first) = requests.first() else { continue };
            let (key, deadline, is_again) =
                (first.key.clone(), first.deadline, first.not_executed.is_some());
            if is_again && !deadline.pause(&self.client, self.context.clock()).await {
                self.give_up(requests);
                continue;
            }
            let sent = self.context.now();
            let pass = match self.breaker.pass(self.client.server_of(&key)) {
                Ok(pass) => pass,
                Err(error) => {
                    self.refuse(requests, &Arc::new(error));
                    continue;
                }
            };
            let call = call_of(first, &requests);
            let until = (deadline, self.breaker.silence());
            let scripts = (&self.line.loads, pass.server());
            let result = run(&self.client, call, until, scripts, self.context.clock()).await;
            if requests.len() > 1 && result.as_ref().is_err_and(is_cross_slot) {
                self.breaker.note(&pass, result.as_ref().err());
                self.stop_batches(&key);
                calls.extend(requests.into_iter().map(|request| vec![request]));
                continue;
            }
            let outcomes = outcomes(result, &requests, || self.server_name(&key));
            self.note(&pass, &key, &outcomes);
            let mut not_executed = Vec::new();
            for (mut request, outcome) in requests.into_iter().zip(outcomes) {
                match outcome {
                    Err(error) if !is_again && error.fault().may_be_sent_again() => {
                        request.not_executed = Some(error);
                        not_executed.push(request);
                    }
                    outcome => self.answer(request, outcome, sent),
                }
            }
            calls.push(not_executed);
        }
    }
}
