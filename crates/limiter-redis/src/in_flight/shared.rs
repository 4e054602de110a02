//! What the handles of a limiter and its permits share, and their calls to the store.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use limiter_core::{Error, LimiterId, Timestamp};
use tokio::sync::oneshot;

use super::{
    enter::{Asked, Enter},
    expiry::Expiry,
    full::Full,
    ids::Ids,
    leave::Waiting,
    permit_state::PermitState,
    table::Table,
};
use crate::{
    call::{
        deadline::{Deadline, run, timeout},
        line::Line,
        queue::Queue,
        request::{MAX_UNDER_WAY, UnderWay},
        sender::RUNTIME_ENDED,
    },
    client::{
        ScriptCall, ScriptClient, ScriptReply,
        circuit_breaker::{CircuitBreaker, Pass},
        faults::{CallError, Fault, Outcome, reported},
    },
    context::Settings,
    events::{EventKind, Events},
    keys::Keys,
    outage_log::OutageLog,
};

/// How many permits a call has at most, so that other commands on the server wait for a millisecond or two at most.
pub(crate) const MAX_PERMITS: usize = 200;

pub(crate) struct Shared<C> {
    pub(super) client: C,
    pub(super) id: LimiterId,
    pub(super) name: String,
    pub(super) limit: AtomicU32,
    pub(super) settings: Settings,
    pub(super) expiry: Expiry,
    pub(super) keys: Keys,
    pub(super) events: Arc<Events>,
    pub(super) outage_log: Arc<OutageLog>,
    pub(super) breaker: CircuitBreaker,
    pub(super) line: Arc<Line>,
    pub(super) under_way: Arc<UnderWay>,
    pub(super) ids: Ids,
    /// The number of the next id.
    pub(super) next: AtomicU64,
    pub(super) table: Table,
    pub(super) full: Full,
    /// Requests that wait to be sent.
    pub(super) enters: Arc<Queue<Enter>>,
    /// Permits that wait to be given back.
    pub(super) leaves: Arc<Queue<Waiting>>,
    /// How many processes share the store, if this one decides by its share while the store can't.
    pub(super) processes: Option<AtomicU32>,
    /// When the last lost permit was logged.
    pub(super) logged_lost: Mutex<Option<Timestamp>>,
}

/// Whether an open circuit breaker refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Breaker,
    Open,
}

/// Reads a reply.
type Read<T> = fn(&ScriptReply) -> Result<T, CallError>;

impl<C: ScriptClient> Shared<C> {
    pub(super) fn new(
        (client, breaker): (C, CircuitBreaker),
        (id, name, limit): (LimiterId, &str, u32),
        (settings, expiry): (Settings, Expiry),
    ) -> Result<Self, Error> {
        let hasher = settings.hasher();
        let keys = Keys::of_in_flight(&settings.prefix, name, settings.secret())?;
        let logs_breakers = settings.local_share.is_none();
        let (events, outage_log) = settings.events(name, (&client, &breaker), logs_breakers);
        Ok(Self {
            id,
            name: name.to_owned(),
            limit: AtomicU32::new(limit),
            expiry,
            keys,
            events,
            outage_log,
            line: breaker.line(),
            breaker,
            under_way: Arc::default(),
            ids: Ids::new(&hasher),
            next: AtomicU64::new(0),
            table: Table::new(expiry, hasher.clone()),
            full: Full::new(settings.denials, hasher),
            enters: Arc::default(),
            leaves: Arc::default(),
            processes: settings.local_share.map(|processes| AtomicU32::new(processes.get())),
            logged_lost: Mutex::new(None),
            settings,
            client,
        })
    }

    /// Returns the time of this process's monotonic clock.
    pub(super) fn now(&self) -> Timestamp {
        self.settings.clock.0.now()
    }

    /// Makes a call for a key in a task, which outlives the caller, and returns what was `read` of the reply.
    pub(super) async fn ask_alone<T: Send + 'static>(
        self: &Arc<Self>,
        key: &Bytes,
        (call, read): (ScriptCall, Read<T>),
    ) -> Outcome<T> {
        let start = |asked: Asked<T>| {
            let (shared, key) = (Arc::clone(self), key.clone());
            self.client.spawn(async move {
                // Nothing was sent for a caller that has left.
                if !asked.has_left() {
                    let passing = (Gate::Breaker, shared.breaker.silence());
                    let (outcome, sent) =
                        shared.call(&key, (call, read), asked.deadline, passing).await;
                    shared.conclude(&key, asked, outcome, sent.is_some());
                }
            });
        };
        self.ask(key, start).await
    }

    /// Starts a request for a key, unless an open circuit breaker refuses it, and waits for its outcome.
    pub(super) async fn ask<T>(&self, key: &Bytes, start: impl FnOnce(Asked<T>)) -> Outcome<T> {
        let deadline = Deadline::after(self.settings.deadline, self.now());
        if let Some(error) = self.breaker.refuses(|| self.client.server_of(key)) {
            return Err(self.short_circuited(error));
        }
        let is_reported = Arc::new(AtomicBool::new(false));
        let failed = match self.under_way.begin() {
            None => {
                let message = format!("{MAX_UNDER_WAY} operations are under way already");
                CallError::new(Fault::NotSent, message)
            }
            Some(operating) => {
                let (caller, outcome) = oneshot::channel();
                let is_reported = Arc::clone(&is_reported);
                start(Asked { deadline, caller, is_reported, operating });
                match timeout(&self.client, deadline.of_caller(Duration::ZERO), outcome).await {
                    Some(Ok(outcome)) => return outcome,
                    Some(Err(_)) => CallError::new(Fault::NoReply, RUNTIME_ENDED),
                    // The call goes on, so that the circuit breaker learns of a late reply.
                    None => {
                        let node = self.node_of(key);
                        let server = node.map_or("Redis".into(), |it| format!("Redis at {it}"));
                        let error = deadline.no_reply(&server);
                        self.breaker.timed_out(&self.client.server_of(key), &error);
                        error
                    }
                }
            }
        };
        let failed = Arc::new(failed);
        if !is_reported.swap(true, Relaxed) {
            self.report(EventKind::StoreError(reported(&failed)), key);
        }
        Err(failed)
    }

    /// Reports an outcome, and gives it to the caller. Dropped by a caller that has left, it has no effect.
    pub(super) fn conclude<T>(
        &self,
        key: &[u8],
        asked: Asked<T>,
        outcome: Outcome<T>,
        was_sent: bool,
    ) {
        let Asked { caller, is_reported, operating, .. } = asked;
        match &outcome {
            Ok(_) if !caller.is_closed() => {
                self.outage_log.ends(&self.name, || self.node_of(key));
            }
            Ok(_) => {}
            Err(error) => {
                // A caller that timed out has reported that itself.
                if was_sent && !is_reported.swap(true, Relaxed) {
                    self.report(EventKind::StoreError(reported(error)), key);
                }
            }
        }
        drop(caller.send(outcome));
        drop(operating);
    }

    /// Makes a call within its deadline, once more if the server did not execute it. Returns what was `read` of the reply,
    /// and when it was sent, unless an open circuit breaker refused it.
    pub(super) async fn call<R>(
        &self,
        key: &[u8],
        (call, read): (ScriptCall, impl Fn(&ScriptReply) -> Result<R, CallError>),
        deadline: Deadline,
        (gate, silence): (Gate, Duration),
    ) -> (Outcome<R>, Option<Timestamp>) {
        let clock = &*self.settings.clock.0;
        // What the first call failed by.
        let mut first = None;
        loop {
            let sent = self.now();
            let pass = match (self.breaker.pass(self.client.server_of(key)), &first) {
                (Ok(pass), _) => Some(pass),
                (Err(_), _) if gate == Gate::Open => None,
                (Err(_), Some((error, sent))) => return (Err(Arc::clone(error)), Some(*sent)),
                (Err(error), None) => return (Err(self.short_circuited(error)), None),
            };
            let scripts = (&self.line.loads, pass.as_ref().and_then(Pass::server));
            let result = run(&self.client, call.clone(), (deadline, silence), scripts, clock).await;
            let result = result.and_then(|reply| read(&reply));
            if result.as_ref().is_err_and(|error| error.fault() == Fault::InvalidReply) {
                self.client.replace_connection(key);
            }
            if let Some(pass) = pass {
                self.breaker.note(&pass, result.as_ref().err());
            }
            match result {
                Err(error)
                    if first.is_none()
                        && error.fault().may_be_sent_again()
                        && deadline.pause(&self.client, clock).await =>
                {
                    first = Some((Arc::new(error), sent));
                }
                result => return (result.map_err(Arc::new), Some(sent)),
            }
        }
    }

    fn short_circuited(&self, error: CallError) -> Arc<CallError> {
        self.events.tally.short_circuited.add();
        Arc::new(error)
    }

    /// Returns the name of the server that has the key, if there are several.
    fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        self.client.server_of(key).map(|(_, name)| name)
    }

    /// Counts an event, and reports it to the observer.
    pub(super) fn report(&self, kind: EventKind, key: &[u8]) {
        self.events.report(kind, &self.name, || self.node_of(key));
    }

    /// Counts, reports and logs that a request was decided by this process's share, because of `error`.
    #[cold]
    pub(super) fn decided_locally(&self, error: &Error, key: &[u8]) {
        self.report(EventKind::DecidedLocally, key);
        let node = self.node_of(key);
        self.outage_log.decided_locally(&self.name, node, error);
    }

    /// Returns whether a permit is lost, also if nothing but the clock shows that yet.
    pub(super) fn is_lost(self: &Arc<Self>, held: &PermitState) -> bool {
        if !held.is_lost() && held.is_over(self.now()) && held.becomes_lost() {
            self.report_lost(1, &held.key, BY_CLOCK);
            self.leave(self.table.lost(held));
        }
        held.is_lost()
    }

    /// Counts and reports lost permits, and logs them: one line every ten seconds.
    pub(super) fn report_lost(&self, number: usize, key: &[u8], why: &str) {
        for _ in 0..number {
            self.report(EventKind::PermitLost, key);
        }
        if number > 0 && self.may_log_lost() {
            let (name, node) = (&*self.name, self.node_of(key));
            let (lost, node) = (self.events.tally.read().permits_lost, node.as_deref());
            tracing::warn!(
                name,
                node,
                lost,
                "permits of requests in flight are lost, so that others may run in their place: {why}"
            );
        }
    }

    fn may_log_lost(&self) -> bool {
        let (now, interval) = (self.now(), OutageLog::INTERVAL);
        let mut logged = self.logged_lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_recent = logged.is_some_and(|at| now.saturating_since(at) < interval);
        if !is_recent {
            *logged = Some(now);
        }
        !is_recent
    }

    /// Gives back a permit that its caller does not hold any more.
    pub(super) fn give_back(self: &Arc<Self>, held: &PermitState) {
        self.full.comes_back(&held.key);
        self.leave(self.table.left(held));
    }

    /// Returns whether a call may have keys in several slots.
    pub(super) fn spans_slots(&self) -> bool {
        self.client.supports_batches() && !self.line.is_node_of_cluster()
    }

    /// Returns items in groups that can share a call: of one key, unless the server has all slots, and of [`MAX_PERMITS`]
    /// at most. While a slot moves, a call with several of its keys is not executed if one of them is absent.
    pub(super) fn groups<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> &Bytes) -> Vec<Vec<T>> {
        let spans = self.spans_slots();
        // Those of a key together.
        items.sort_by(|one, other| key(one).cmp(key(other)));
        let mut groups: Vec<Vec<T>> = Vec::new();
        for item in items {
            match groups.last_mut() {
                Some(group)
                    if group.len() < MAX_PERMITS
                        && (spans || group.last().is_some_and(|it| key(it) == key(&item))) =>
                {
                    group.push(item);
                }
                _ => groups.push(vec![item]),
            }
        }
        groups
    }

    /// Stops sending calls with keys in several slots, because the server is a node of a cluster.
    pub(super) fn stops_spanning(&self) {
        let _ = self.line.becomes_node_of_cluster();
    }
}

/// Why a permit is lost that no reply has declared lost.
pub(super) const BY_CLOCK: &str = "they were not renewed in time";
