//! What all handles of a limiter share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use limiter_core::{Error, Policy};

use crate::{
    builder::Settings,
    call::{
        batch::BatchQueue,
        breaker::{self, Breaker, Pass},
        deadline::Deadline,
        denials::Denials,
        fallback::Local,
        faults::{CallError, Fault},
        under_way::UnderWay,
    },
    client::ScriptClient,
    events::Events,
    handle::Handles,
    keys::Keys,
    observer::ObserverQueue,
};

/// Whether an operation charges or gives back permits, or only reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    Write,
}

pub(crate) struct Shared<C> {
    /// Distinguishes this limiter's receipts from those of others.
    pub(crate) id: u64,
    pub(crate) client: C,
    pub(crate) settings: Settings,
    /// The policy that the limiter was built with.
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) denials: Denials,
    pub(crate) events: Events,
    pub(crate) local: Option<Local>,
    /// One for peeks and one for writes of each server. A node of a cluster that fails does not keep
    /// calls from the others, and a server that is out of memory still serves peeks.
    breakers: [[Breaker; 2]; SERVERS],
    pub(crate) handles: Handles,
    pub(crate) under_way: Arc<UnderWay>,
    /// The checks of all handles that wait to be sent.
    pub(crate) queue: BatchQueue,
    /// Whether a lost expiry that could not be restored has been logged.
    has_warned: AtomicBool,
    /// Whether checks are sent in batches: not after the server refused one with `CROSSSLOT`.
    pub(crate) batches: AtomicBool,
}

/// Servers with larger numbers share the breaker of another server.
const SERVERS: usize = 32;

impl<C: ScriptClient> Shared<C> {
    pub(crate) fn new(client: C, settings: Settings, policy: Policy) -> Result<Self, Error> {
        static LIMITERS: AtomicU64 = AtomicU64::new(0);
        let secret = settings.key_secret.as_ref().map(|secret| &*secret.0);
        let observer = settings.observer.clone();
        let observer = observer.map(|it| ObserverQueue::new(it.0, client.runtime().clone()));
        Ok(Self {
            id: LIMITERS.fetch_add(1, Relaxed),
            keys: Keys::new(&settings.prefix, &policy, secret)?,
            denials: Denials::new(settings.denials, Instant::now()),
            events: Events::new(policy.name(), observer),
            local: settings.failure_policy.local(&policy)?,
            breakers: std::array::from_fn(|_| {
                let Settings { failures, open, deadline, .. } = settings;
                let settings = breaker::Settings { failures, open, deadline };
                [Breaker::new(settings), Breaker::new(settings)]
            }),
            handles: Handles::default(),
            under_way: Arc::default(),
            queue: BatchQueue::default(),
            batches: AtomicBool::new(settings.batching && client.takes_many_keys()),
            has_warned: AtomicBool::new(false),
            client,
            settings,
            policy,
        })
    }

    /// Stops sending batches, because the server is a node of a cluster.
    pub(crate) fn stop_batches(&self, key: &[u8]) {
        if self.batches.swap(false, Relaxed) {
            let (policy, node) = (self.policy.name(), self.node_of(key));
            let node = node.as_deref();
            tracing::warn!(
                policy,
                node,
                "the server refused a batch with CROSSSLOT and checks are sent one by one: it is a \
                 node of a cluster; use redis-cluster://"
            );
        }
    }

    /// Logs, once, that a key without an expiry may stay without one.
    pub(crate) fn expiry_was_not_restored(&self, error: &str) {
        if !self.has_warned.swap(true, Relaxed) {
            let policy = self.policy.name();
            tracing::warn!(
                policy,
                "the scripts can't check that refused keys have an expiry: {error}; allow the user \
                 PTTL and PEXPIRE"
            );
        }
    }

    /// Returns the circuit breaker of the server that has the key.
    pub(crate) fn breaker(&self, key: &[u8], access: Access) -> &Breaker {
        // The first is for keys whose server is not known, and for clients with one server.
        let server = self.client.server_of(key);
        let index = server.map_or(0, |(number, _)| 1 + number % (SERVERS - 1));
        // There is one for each remainder.
        let [writes, reads] = self.breakers.get(index).unwrap_or(&self.breakers[0]);
        match access {
            Access::Read => reads,
            Access::Write => writes,
        }
    }

    /// Counts an operation that the circuit breaker refused, and returns its error.
    pub(crate) fn breaker_is_open(&self, key: &[u8]) -> Arc<CallError> {
        self.events.tally.not_asked.add();
        let node = self.node_of(key).map_or(String::new(), |node| format!(" at {node}"));
        let message = format!("Redis{node} failed recently and is not called");
        Arc::new(CallError::new(Fault::NotSent, message))
    }

    /// Reports the outcome of a call to the circuit breaker, whatever the number of checks in it.
    pub(crate) fn note(
        &self,
        pass: Pass<'_>,
        (key, access): (&[u8], Access),
        error: Option<&CallError>,
    ) {
        let failed = error.map_or(Some(false), |error| error.fault().server_failed());
        let transition = match failed {
            // Without a result, the pass lets another call probe.
            None => return,
            Some(false) => pass.succeeded(),
            Some(true) => pass.failed(Instant::now()),
        };
        let cause = || error.map_or(String::new(), ToString::to_string);
        match transition {
            Some(transition) => {
                self.events.transition(transition, access, self.node_of(key), &cause());
            }
            None if failed == Some(true) && self.breaker(key, access).is_open() => {
                self.events.log_outage(access, self.node_of(key), &cause());
            }
            None => {}
        }
    }

    /// Reports to the circuit breaker that a caller waited for its answer in vain.
    pub(crate) fn timed_out(
        &self,
        key: &[u8],
        access: Access,
        deadline: Deadline,
        error: &CallError,
    ) {
        let opened = self.breaker(key, access).timed_out(deadline.since(), Instant::now());
        if let Some(opened) = opened {
            self.events.transition(opened, access, self.node_of(key), &error.to_string());
        }
    }

    /// Returns the name of the server that has the key, if there are several.
    pub(crate) fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        self.client.server_of(key).map(|(_, name)| name)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "peeks",
            Self::Write => "checks",
        })
    }
}
