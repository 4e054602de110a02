//! The one way to the store, and back: requests are collected, sent in calls within their deadline, and
//! answered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use limiter_core::{Cost, Error};
use tokio::sync::oneshot;

use super::{
    breaker,
    breakers::Breakers,
    check::Check,
    deadline::{Deadline, run, timeout},
    outcomes::outcomes,
    queue::{Queue, QueueClaim, let_ready_tasks_run},
    request::{MAX_UNDER_WAY, Operation, Request, UnderWay, call_of},
};
use crate::{
    client::{
        ScriptClient,
        faults::{CallError, Fault, Outcome, named, reported},
    },
    context::{Context, Settings},
    events::EventKind,
    handle::Handle,
    scripts::{Charge, CheckReply},
};

/// Sends the requests of all handles of a limiter.
pub(crate) struct Sender<C> {
    pub(crate) client: C,
    pub(crate) context: Arc<Context>,
    pub(super) breakers: Breakers,
    pub(crate) under_way: Arc<UnderWay>,
    /// The checks that wait to be sent.
    queue: Arc<Queue<Request<Check>>>,
    /// Whether checks are sent in batches: not after the server refused one with `CROSSSLOT`.
    pub(super) batches: AtomicBool,
}

pub(crate) const RUNTIME_ENDED: &str = "the runtime was shut down while the answer was awaited";

pub(crate) const BUSY: &str =
    "no answer within the deadline; the thread of the client's runtime is busy";

impl<C: ScriptClient> Sender<C> {
    pub(crate) fn new(client: C, context: Context) -> Self {
        let Settings { failures, open, deadline, batching, .. } = context.settings;
        let settings = breaker::Settings { failures, open, deadline };
        Self {
            breakers: Breakers::new(settings),
            under_way: Arc::default(),
            queue: Arc::default(),
            batches: AtomicBool::new(batching && client.supports_batches()),
            context: Arc::new(context),
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
            if !self.batches.load(Relaxed) {
                self.spawn(vec![request]);
            } else if let Some(claim) = self.queue.push(request) {
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
        match self.context.settings.batching {
            true => self.batches.load(Relaxed),
            false => self.client.supports_batches(),
        }
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
        // First of all, so that nothing is allocated for a call that is not made.
        if self.breaker(key).may_pass(self.context.now()).is_err() {
            let error = self.breaker_is_open(key, 1);
            self.report_failure::<O>(&error, handle, key);
            return Err(error);
        }
        let deadline = Deadline::after(self.context.settings.deadline, self.context.now());
        let is_of_caller = operation.is_of_caller();
        let (caller, outcome) = oneshot::channel();
        let failed = match self.under_way.begin() {
            None => {
                let message = format!("{MAX_UNDER_WAY} operations are under way already");
                CallError::new(Fault::NotSent, message)
            }
            Some(operating) => {
                start(Request {
                    operation,
                    key: key.clone(),
                    handle: Arc::clone(handle),
                    deadline,
                    not_executed: None,
                    caller,
                    operating,
                });
                match timeout(&self.client, deadline.of_caller(), outcome).await {
                    Some(Ok(outcome)) => return outcome,
                    Some(Err(_)) => CallError::new(Fault::NoReply, RUNTIME_ENDED),
                    // The task that makes the call was not scheduled.
                    None => {
                        let error = CallError::new(Fault::NoReply, BUSY);
                        self.timed_out(key, deadline, &error);
                        error
                    }
                }
            }
        };
        let failed = Arc::new(failed);
        if is_of_caller {
            self.report(EventKind::StoreError(reported(&failed)), handle, key);
            self.report_failure::<O>(&failed, handle, key);
        }
        Err(failed)
    }

    /// Sends the checks that wait, after all tasks that are ready could add theirs: those of one script in one call.
    async fn send_queued(self: Arc<Self>, claim: QueueClaim<Request<Check>>) {
        let_ready_tasks_run().await;
        let mut requests = claim.take();
        let route = |request: &Request<Check>| request.operation.charge.route;
        requests.sort_by_key(route);
        let most = requests.first().map_or(1, |first| first.handle.plan.max_batch());
        while let Some(last) = requests.last().map(route) {
            let of_others = requests.partition_point(|request| route(request) < last);
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
            let Ok(pass) = self.breaker(&key).pass(sent) else {
                self.refuse(requests, &key);
                continue;
            };
            let call = call_of(first, &requests);
            let result = run(&self.client, call, deadline, self.context.clock()).await;
            if requests.len() > 1 && result.as_ref().is_err_and(is_cross_slot) {
                self.stop_batches(&key);
                calls.extend(requests.into_iter().map(|request| vec![request]));
                continue;
            }
            let outcomes = outcomes(result, &requests, || self.server_name(&key));
            self.note(pass, &key, &outcomes);
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
