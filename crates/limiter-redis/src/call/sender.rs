//! The one way to the store, and back: requests are collected, sent in calls within their deadline, and
//! answered.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use limiter_core::{Cost, Error, Timestamp};
use tokio::sync::oneshot;

use super::{
    breaker,
    breaker::{Breaker, Open, Pass},
    deadline::{Deadline, run, timeout},
    loading::Loading,
    operation::Check,
    outcomes::outcomes,
    queue::{Queue, Turn, let_ready_tasks_run},
    request::{Operation, Request, take_keys},
    under_way::{MAX_UNDER_WAY, UnderWay},
};
use crate::{
    client::{
        Form, ScriptClient,
        faults::{CallError, Fault, Outcome, named, reported},
    },
    context::{Context, Settings},
    events::{EventKind, FallbackKind},
    handle::Handle,
    scripts::{Charge, CheckReply, Route},
};

/// Sends the requests of all handles of a limiter.
pub(crate) struct Sender<C> {
    pub(crate) client: C,
    pub(crate) context: Arc<Context>,
    /// One for each server, so that a node of a cluster that fails does not keep calls from the others.
    breakers: [Breaker; SERVERS],
    pub(crate) under_way: Arc<UnderWay>,
    /// The checks that wait to be sent.
    queue: Arc<Queue<Request<Check>>>,
    /// Whether checks are sent in batches: not after the server refused one with `CROSSSLOT`.
    batches: AtomicBool,
    loading: Loading,
}

/// Servers with larger numbers share the breaker of another server.
const SERVERS: usize = 32;

pub(crate) const RUNTIME_ENDED: &str = "the runtime was shut down while the answer was awaited";

const BUSY: &str = "no answer within the deadline; the thread of the client's runtime is busy";

impl<C: ScriptClient> Sender<C> {
    pub(crate) fn new(client: C, context: Context) -> Self {
        let Settings { failures, open, deadline, batching, .. } = context.settings;
        let settings = breaker::Settings { failures, open, deadline };
        Self {
            breakers: std::array::from_fn(|_| Breaker::new(settings)),
            under_way: Arc::default(),
            queue: Arc::default(),
            batches: AtomicBool::new(batching && client.supports_batches()),
            loading: Loading::default(),
            context: Arc::new(context),
            client,
        }
    }

    /// Sends a check, in one call with others of the same moment, and returns its answer. More permits than its cost
    /// may be `wanted`, as a lease.
    pub(crate) async fn check(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &[u8],
        cost: Cost,
        wanted: u64,
    ) -> Result<CheckReply, Error> {
        let Context { denials, detours, .. } = &*self.context;
        let ticket = denials.ticket(key);
        let route = match detours.has(ticket.hash(), self.context.now()) {
            true => Route::Policy,
            false => handle.plan.route(wanted),
        };
        let check = Check { charge: Charge { cost, wanted, route }, ticket };
        self.ask(handle, key, check, |request| {
            if !self.batches.load(Relaxed) {
                self.spawn(vec![request]);
            } else if let Some(turn) = self.queue.push(request) {
                let sender = Arc::clone(self);
                self.client.spawn(sender.send_queued(turn));
            }
        })
        .await
    }

    /// Returns whether a call may have keys in several slots, also if checks are not sent in batches.
    pub(crate) fn may_span_slots(&self) -> bool {
        match self.context.settings.batching {
            true => self.batches.load(Relaxed),
            false => self.client.supports_batches(),
        }
    }

    /// Sends another operation, and returns its answer.
    pub(crate) async fn operate<O: Operation>(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        key: &[u8],
        operation: O,
    ) -> Result<O::Output, Error> {
        self.ask(handle, key, operation, |request| self.spawn(vec![request])).await
    }

    /// Starts a request if the circuit breaker lets it pass, and waits for its outcome, which another task
    /// sends and reports.
    async fn ask<O: Operation>(
        &self,
        handle: &Arc<Handle>,
        key: &[u8],
        operation: O,
        start: impl FnOnce(Request<O>),
    ) -> Result<O::Output, Error> {
        let named = |error| named(handle.policy.name(), error);
        // First of all, so that nothing is allocated for a call that is not made.
        if self.breaker(key).may_pass(self.context.now()).is_err() {
            let error = self.breaker_is_open(key);
            self.report_failure::<O>(&error, handle, key);
            return Err(named(error));
        }
        let deadline = Deadline::after(self.context.settings.deadline, self.context.now());
        let (caller, outcome) = oneshot::channel();
        let failed = match self.under_way.begin() {
            None => {
                let message = format!("{MAX_UNDER_WAY} operations are under way already");
                CallError::new(Fault::NotSent, message)
            }
            Some(operating) => {
                start(Request {
                    operation,
                    key: key.to_vec(),
                    handle: Arc::clone(handle),
                    deadline,
                    caller,
                    operating,
                });
                match timeout(&self.client, deadline.of_caller(), outcome).await {
                    Some(Ok(outcome)) => return outcome.map_err(named),
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
        self.report(EventKind::StoreError(reported(&failed)), handle, key);
        self.report_failure::<O>(&failed, handle, key);
        Err(named(failed))
    }

    /// Sends the checks that wait, after all tasks that are ready could add theirs: those of one script in one call.
    async fn send_queued(self: Arc<Self>, turn: Turn<Request<Check>>) {
        let_ready_tasks_run().await;
        let mut requests = turn.take();
        requests.retain(|request| !request.is_abandoned());
        let route = |request: &Request<Check>| request.operation.charge.route;
        requests.sort_by_key(route);
        let most = requests.first().map_or(1, |first| first.handle.plan.max_batch());
        while let Some(last) = requests.last().map(route) {
            let of_others = requests.partition_point(|request| route(request) < last);
            let of_last = requests.len() - of_others;
            // The last ones first, because Tokio runs the task that was spawned last first.
            match of_others + (of_last - 1) / most * most {
                0 => return self.send(requests).await,
                start => self.spawn(requests.split_off(start)),
            }
        }
    }

    fn spawn<O: Operation>(self: &Arc<Self>, requests: Vec<Request<O>>) {
        let sender = Arc::clone(self);
        self.client.spawn(async move { sender.send(requests).await });
    }

    /// Sends requests in one call, or one by one if the server refuses that. What their own script leaves undecided is
    /// sent to the script `policy` in a second call.
    async fn send<O: Operation>(&self, requests: Vec<Request<O>>) {
        let (mut next, mut others) = (Some(requests), Vec::new());
        while let Some(requests) = next {
            others.extend(self.send_together(requests).await);
            next = others.pop();
        }
    }

    /// Sends requests in one call, and answers their callers. Requests that were not executed are sent once
    /// more.
    ///
    /// Returns the calls that are to be made instead: one for each request if they can't share a call, and one for those
    /// that are undecided.
    async fn send_together<O: Operation>(
        &self,
        mut requests: Vec<Request<O>>,
    ) -> Vec<Vec<Request<O>>> {
        let mut undecided = Vec::new();
        for is_last in [false, true] {
            requests.retain(|request| !request.is_abandoned());
            let Some(first) = requests.first() else { break };
            let (deadline, node) = (first.deadline, first.key.clone());
            let sent = self.context.now();
            let pass = match self.breaker(&node).pass(sent) {
                Ok(pass) => pass,
                Err(Open) => {
                    let error = self.breaker_is_open(&node);
                    for request in requests {
                        self.report_failure::<O>(&error, &request.handle, &request.key);
                        request.answer(Err(Arc::clone(&error)));
                    }
                    break;
                }
            };
            let Some(mut call) = O::batch(&requests) else { return one_by_one(requests) };
            call.keys = take_keys(&mut requests, &self.context.keys);
            let result = run(&self.client, &mut call, deadline, self.context.clock()).await;
            if call.form == Form::Eval && result.is_ok() {
                let Settings { scripts, deadline, .. } = &self.context.settings;
                self.loading.start(&self.client, scripts, (&call, &node), *deadline);
            }
            let keys = call.keys.into_iter().step_by(self.context.keys.number());
            for (request, key) in requests.iter_mut().zip(keys) {
                request.key = key;
            }
            let is_refused = |error: &CallError| error.fault() == Fault::CrossSlot;
            if requests.len() > 1 && result.as_ref().is_err_and(is_refused) {
                self.stop_batches(&node);
                return one_by_one(requests);
            }
            let outcomes = outcomes(result, &requests);
            self.note(pass, &node, &outcomes);

            let mut not_executed = Vec::new();
            for (mut request, outcome) in requests.into_iter().zip(outcomes) {
                match outcome {
                    Ok(None) => {
                        request.operation.is_undecided(&self.context);
                        undecided.push(request);
                    }
                    Ok(Some(output)) => self.answer(request, Ok(output), sent),
                    Err(error) if !is_last && error.fault().may_be_sent_again() => {
                        not_executed.push((request, error));
                    }
                    Err(error) => self.answer(request, Err(error), sent),
                }
            }
            if !not_executed.is_empty() && !deadline.pause(&self.client, self.context.clock()).await
            {
                for (request, error) in mem::take(&mut not_executed) {
                    self.answer(request, Err(error), sent);
                }
            }
            requests = not_executed.into_iter().map(|(request, _)| request).collect();
        }
        if undecided.is_empty() { Vec::new() } else { vec![undecided] }
    }

    /// Reports and notes an outcome, and answers the caller if it still waits.
    fn answer<O: Operation>(
        &self,
        request: Request<O>,
        mut outcome: Outcome<O::Output>,
        sent: Timestamp,
    ) {
        let Request { handle, key, .. } = &request;
        if let Err(error) = &outcome
            && !request.has_timed_out(self.context.now())
        {
            self.report(EventKind::StoreError(reported(error)), handle, key);
            self.report_failure::<O>(error, handle, key);
        }
        // Not by a reply that came too late for its caller.
        if O::DECIDES && outcome.is_ok() && !request.caller.is_closed() {
            self.context.outage_log.ends(handle.policy.name(), || self.node_of(key));
        }
        O::note(&request, &self.context, sent, &mut outcome);
        request.answer(outcome);
    }

    /// Reports what a failure means for an operation, besides the error.
    fn report_failure<O: Operation>(&self, error: &Arc<CallError>, handle: &Handle, key: &[u8]) {
        if let Some(kind) = O::failure(error) {
            self.report(kind, handle, key);
        }
    }

    /// Reports the outcome of a call to the circuit breaker, whatever the number of requests in it.
    fn note<T>(&self, pass: Pass<'_>, key: &[u8], outcomes: &[Outcome<T>]) {
        // The first error by which the server failed, or the first one.
        let errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let error = errors.min_by_key(|error| error.fault().server_failed() == Some(false));
        let failed = error.map_or(Some(false), |error| error.fault().server_failed());
        let transition = match failed {
            // Without a result, the pass lets another call probe.
            None => return,
            Some(false) => pass.succeeded(),
            Some(true) => pass.failed(self.context.now()),
        };
        let cause = || error.map_or(String::new(), ToString::to_string);
        let events = &self.context.events;
        match transition {
            Some(transition) => {
                events.transition(transition, self.node_of(key), &cause());
            }
            None if failed == Some(true) && self.breaker(key).is_open() => {
                events.log_outage(self.node_of(key), &cause());
            }
            None => {}
        }
    }

    /// Reports to the circuit breaker that a caller waited for its answer in vain.
    fn timed_out(&self, key: &[u8], deadline: Deadline, error: &CallError) {
        let opened = self.breaker(key).timed_out(deadline.since(), self.context.now());
        if let Some(opened) = opened {
            let (events, node) = (&self.context.events, self.node_of(key));
            events.transition(opened, node, &error.to_string());
        }
    }

    /// Counts an event, and reports it to the observer.
    pub(crate) fn report(&self, kind: EventKind, handle: &Handle, key: &[u8]) {
        self.context.events.report(kind, handle.policy.name(), || self.node_of(key));
    }

    /// Counts, reports and logs that a check was decided without the store, because of `error`.
    #[cold]
    pub(crate) fn fell_back(&self, kind: FallbackKind, error: &Error, handle: &Handle, key: &[u8]) {
        self.report(EventKind::Fallback(kind), handle, key);
        let (log, node) = (&self.context.outage_log, self.node_of(key));
        log.begins(kind.follows(), handle.policy.name(), node, error);
    }

    /// Returns the circuit breaker of the server that has the key.
    fn breaker(&self, key: &[u8]) -> &Breaker {
        // The first is for keys whose server is not known, and for clients with one server.
        let server = self.client.server_of(key);
        let index = server.map_or(0, |(number, _)| 1 + number % (SERVERS - 1));
        // There is one for each remainder.
        self.breakers.get(index).unwrap_or(&self.breakers[0])
    }

    /// Counts an operation that the circuit breaker refused, and returns its error.
    fn breaker_is_open(&self, key: &[u8]) -> Arc<CallError> {
        self.context.events.tally.short_circuited.add();
        let node = self.node_of(key).map_or(String::new(), |node| format!(" at {node}"));
        let message = format!("Redis{node} failed recently and is not called");
        Arc::new(CallError::new(Fault::NotSent, message))
    }

    /// Stops sending batches, because the server is a node of a cluster.
    pub(crate) fn stop_batches(&self, key: &[u8]) {
        if self.batches.swap(false, Relaxed) {
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

    /// Returns the name of the server that has the key, if there are several.
    fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        self.client.server_of(key).map(|(_, name)| name)
    }
}

/// Returns a call for each request.
fn one_by_one<O: Operation>(requests: Vec<Request<O>>) -> Vec<Vec<Request<O>>> {
    requests.into_iter().map(|request| vec![request]).collect()
}
