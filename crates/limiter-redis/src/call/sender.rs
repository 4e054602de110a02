//! Collects requests, sends them in calls within their deadline, and answers their callers.

use std::{
    slice,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{Error, ErrorKind, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use super::{
    check::Check,
    deadline::{Deadline, timeout},
    operation::{Batched, Operation, Progress, Request},
    queue::{Queue, QueueClaim, UnderWay, let_ready_tasks_run},
};
use crate::{
    client::{
        Form, ScriptCall, ScriptClient, ScriptReply,
        circuit_breaker::{CircuitBreaker, Watch},
        faults::{CallError, Fault, Outcome},
    },
    context::Settings,
    events::{Events, ObserverQueue},
};

/// Sends the operations of a limiter.
pub(crate) struct Sender<C> {
    pub(crate) client: C,
    pub(crate) breaker: CircuitBreaker,
    pub(crate) settings: Arc<Settings>,
    pub(crate) events: Arc<Events>,
    pub(crate) under_way: Arc<UnderWay>,
    pub(crate) line: Arc<Line>,
}

/// What the limiters on one connection share.
#[derive(Default)]
pub(crate) struct Line {
    /// The checks that wait to be sent.
    pub(crate) checks: Arc<Queue<Request<Check>>>,
    /// Locked while a script is sent that a server does not have. Callers that find that out meanwhile wait.
    loading: AsyncMutex<()>,
    /// Whether a call must have the keys of one slot: in a cluster, and once a server refused another one with `CROSSSLOT`.
    pub(super) is_of_one_slot: AtomicBool,
}

pub(crate) const RUNTIME_ENDED: &str = "the runtime was shut down while the answer was awaited";

impl<C: ScriptClient> Sender<C> {
    /// Returns what sends the operations of a limiter with this name.
    pub(crate) fn new(
        (client, breaker): (C, CircuitBreaker),
        settings: Arc<Settings>,
        name: &str,
    ) -> Arc<Self> {
        let observer = settings.observer.clone().map(|it| {
            let client = client.clone();
            ObserverQueue::new(it.0, Box::new(move |task| client.spawn_blocking(task)))
        });
        let events = Arc::new(Events::new(name, observer, Arc::clone(&settings.clock.0)));
        let watcher: Weak<dyn Watch> = Arc::<Events>::downgrade(&events);
        breaker.watch(&watcher);
        let line: Arc<Line> = breaker.shared();
        if !client.supports_batches() {
            line.is_of_one_slot.store(true, Relaxed);
        }
        Arc::new(Self { events, under_way: Arc::default(), line, settings, breaker, client })
    }

    /// Waits until no operation is under way, for `within` at most.
    pub(crate) async fn ended(&self, within: Duration) -> Result<(), Error> {
        timeout(&self.client, within, self.under_way.ended()).await.ok_or_else(|| {
            let number = self.under_way.number();
            let plural = if number == 1 { " is" } else { "s are" };
            let message = format!("{number} operation{plural} still under way after {within:?}");
            Error::new(ErrorKind::Undetermined, message)
        })
    }

    /// Returns the time of this process's monotonic clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.settings.clock.0.now()
    }

    /// Returns whether a call may have keys in several slots.
    pub(crate) fn may_span_slots(&self) -> bool {
        !self.line.is_of_one_slot.load(Relaxed)
    }

    /// Sends an operation under a policy of this name, and returns its outcome.
    pub(crate) async fn operate<O: Operation>(
        self: &Arc<Self>,
        policy: &str,
        operation: O,
    ) -> Outcome<O::Output> {
        self.ask(policy, operation, |request| self.spawn(vec![request])).await
    }

    /// Sends an operation, in one call with others of the same moment in the queue, and returns its outcome.
    pub(crate) async fn operate_with_others<O: Batched>(
        self: &Arc<Self>,
        queue: &Arc<Queue<Request<O>>>,
        policy: &str,
        operation: O,
    ) -> Outcome<O::Output> {
        self.ask(policy, operation, |request| {
            if !self.settings.batching || !self.may_span_slots() {
                self.spawn(vec![request]);
            } else if let Some(claim) = queue.push(request) {
                self.client.spawn(Arc::clone(self).send_queued(claim));
            }
        })
        .await
    }

    /// Starts a request if the circuit breaker lets it pass, and waits for its outcome, which another task
    /// sends and reports.
    async fn ask<O: Operation>(
        &self,
        policy: &str,
        operation: O,
        start: impl FnOnce(Request<O>),
    ) -> Outcome<O::Output> {
        let key = operation.key().clone();
        // First, so that a call that is not made starts no task.
        if !O::PASSES_BREAKER
            && let Some(error) = self.breaker.refuses(|| self.client.server_of(&key))
        {
            let error = Arc::new(error);
            self.short_circuited::<O>(&error, (&self.events, policy), &key);
            return Err(error);
        }
        let now = self.now();
        let deadline = operation.deadline(&self.settings, now);
        // Callers that share an operation have deadlines of their own, and use what is late for all of them.
        let is_of_caller = operation.is_of_caller();
        let silence = if is_of_caller { Duration::ZERO } else { self.breaker.silence() };
        let (caller, outcome) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        let waited = if let Some(operating) = self.under_way.begin() {
            let (not_executed, of_caller) = (None, Arc::clone(&progress));
            start(Request { operation, deadline, not_executed, caller, progress, operating });
            let waited = timeout(&self.client, deadline.of_caller(silence, now), outcome).await;
            if let Some(Ok(outcome)) = waited {
                return outcome;
            }
            Some((waited.is_some(), of_caller.ends()))
        } else {
            None
        };
        let failed = Arc::new(match waited {
            None => {
                let message = format!("{} operations are under way already", UnderWay::MAX);
                CallError::new(Fault::NotSent, message)
            }
            Some((true, _)) => CallError::new(Fault::NoReply, RUNTIME_ENDED),
            Some((false, Progress::WAITS)) if !O::OUTLIVES_CALLER => deadline.no_time(),
            // The call goes on, so that the circuit breaker learns of a late reply.
            Some(_) => deadline.no_reply(&self.server_name(&key)),
        });
        if is_of_caller && waited.is_none_or(|(_, state)| !Progress::is_over(state)) {
            self.report_failed::<O>(&failed, (&self.events, policy), &key);
        }
        Err(failed)
    }

    /// Sends the requests that wait, after all tasks that are ready could add theirs: those of one kind and with equal
    /// deadlines in one call, whatever their limiters.
    async fn send_queued<O: Batched>(self: Arc<Self>, claim: QueueClaim<Request<O>>) {
        let_ready_tasks_run().await;
        let mut requests = claim.take();
        let kind = |request: &Request<O>| (request.operation.kind(), request.deadline.within);
        requests.sort_by_key(kind);
        while let Some(last) = requests.last().map(kind) {
            let of_others = requests.partition_point(|request| kind(request) < last);
            let mut alike = requests.split_off(of_others);
            let most = alike.iter().map(|request| request.operation.max_batch()).min();
            // The last ones first, because Tokio runs the task that was spawned last first.
            while let Some(start) = alike.len().checked_sub(most.unwrap_or(1)).filter(|it| *it > 0)
            {
                self.spawn(alike.split_off(start));
            }
            if requests.is_empty() {
                return self.send(alike).await;
            }
            self.spawn(alike);
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
        let mut calls = vec![requests];
        while let Some(mut requests) = calls.pop() {
            // Nothing was sent for a caller that has left.
            requests.retain(|Request { progress, caller, .. }| {
                progress.begins() && !caller.is_closed() || O::OUTLIVES_CALLER
            });
            let Some(Request { operation, deadline, not_executed, .. }) = requests.first() else {
                continue;
            };
            let (key, deadline, is_again) =
                (operation.key().clone(), *deadline, not_executed.is_some());
            let mut call = operation.begin();
            if is_again && !deadline.pause(&self.client, &*self.settings.clock.0).await {
                for mut request in requests {
                    if let Some(error) = request.not_executed.take() {
                        self.answer(request, Err(error), self.now());
                    }
                }
                continue;
            }
            let server = self.client.server_of(&key);
            call.server = server.as_ref().map(|(number, _)| *number);
            let pass = match self.breaker.pass(server, O::PASSES_BREAKER) {
                Ok(pass) => pass,
                Err(error) => {
                    let error = Arc::new(error);
                    requests.into_iter().for_each(|request| self.refuse(request, &error));
                    continue;
                }
            };
            requests.iter().for_each(|request| request.operation.add(&mut call));
            let (sent, has_several_keys) = (self.now(), call.keys.len() > 1);
            let result = self.run(call, deadline).await;
            if result.as_ref().is_err_and(|error| error.fault() == Fault::CrossSlot) {
                if has_several_keys {
                    self.stop_batches(&key);
                }
                if requests.len() > 1 {
                    self.breaker.note(&pass, None);
                    calls.extend(requests.into_iter().map(|request| vec![request]));
                    continue;
                }
            }
            let outcomes = self.outcomes(result, &requests, sent);
            // Whatever the number of requests in the call.
            let mut errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            let failed = errors.find(|error| error.fault().server_failed() != Some(false));
            if failed.is_some_and(|error| error.fault() == Fault::InvalidReply) {
                self.client.replace_connection(&key);
            }
            self.breaker.note(&pass, failed.map(|error| &**error));
            let mut again = Vec::new();
            for (mut request, outcome) in requests.into_iter().zip(outcomes) {
                match outcome {
                    Err(error) if !is_again && error.fault().may_be_sent_again() => {
                        request.not_executed = Some(error);
                        again.push(request);
                    }
                    outcome => self.answer(request, outcome, sent),
                }
            }
            calls.push(again);
        }
    }

    /// Runs a script by its digest, and by its source if the server does not have it and no other caller is sending one.
    /// A reply is awaited until the deadline, or until the server has been silent for so long.
    async fn run(
        &self,
        mut call: ScriptCall,
        deadline: Deadline,
    ) -> Result<ScriptReply, CallError> {
        call.silence = self.breaker.silence();
        let mut _loading = None;
        loop {
            let left = deadline.left(self.now());
            if left.is_zero() {
                return Err(deadline.no_time());
            }
            match self.client.run(&call, left).await {
                Err(error) if error.fault() == Fault::NoScript && call.form == Form::Evalsha => {
                    match self.line.loading.try_lock() {
                        Ok(lock) => (_loading, call.form) = (Some(lock), Form::Eval),
                        Err(_) => drop(self.line.loading.lock().await),
                    }
                }
                Err(error) => return Err(error.in_script(&call.script.source)),
                result => return result,
            }
        }
    }

    /// Returns the outcome of each request of a call. Errors of single keys contain the name of the server.
    fn outcomes<O: Operation>(
        &self,
        result: Result<ScriptReply, CallError>,
        requests: &[Request<O>],
        sent: Timestamp,
    ) -> Vec<Outcome<O::Output>> {
        let read = |reply: &ScriptReply, Request { operation, .. }: &Request<O>| match reply {
            ScriptReply::Text(words) => {
                Err(CallError::of_command(&self.server_name(operation.key()), words))
            }
            _ => operation.read(reply, sent).ok_or_else(|| CallError::invalid_reply(reply)),
        };
        let elements = result.as_ref().map(|reply| match reply {
            // To one request, it is the reply itself.
            _ if requests.len() == 1 => slice::from_ref(reply),
            ScriptReply::Array(elements) if elements.len() == requests.len() => elements,
            _ => &[],
        });
        if let Ok(elements @ [_, ..]) = elements {
            let outcomes = elements.iter().zip(requests).map(|(reply, it)| read(reply, it));
            return outcomes.map(|outcome| outcome.map_err(Arc::new)).collect();
        }
        let error = Arc::new(result.map_or_else(|error| error, |it| CallError::invalid_reply(&it)));
        requests.iter().map(|_| Err(Arc::clone(&error))).collect()
    }
}
