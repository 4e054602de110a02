//! The circuit breaker of a connection.

use std::{
    any::Any,
    fmt,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use limiter_core::{Clock, Error, ErrorKind, SystemClock};

use super::{
    breaker::{self, Breaker, Change},
    faults::{CallError, Fault},
};

/// Refuses calls at once while a server returns nothing, so that requests don't wait for it.
///
/// It belongs to a connection to one server or cluster: all limiters on one [`Connection`](crate::Connection) share it,
/// and those on clones of a `FredClient`. In a cluster each node has one of its own. It opens when all calls have failed
/// for the time of *silence*, 250 ms by default. A call fails if it gets no reply, can't be sent, or gets a reply that
/// its script doesn't return. An error reply, such as `OOM`, is a reply. While it is open, one call every 100 ms probes
/// the server. The first reply closes it, and so does a node that leaves its cluster.
///
/// The limiters that share it also share calls. So a client of your own can have one for all limiters on its clones, by
/// [`ScriptClient::breaker`](crate::ScriptClient::breaker). Otherwise each limiter on it has one.
///
/// ```
/// use std::time::Duration;
/// use limiter_core::SystemClock;
/// use limiter_redis::CircuitBreaker;
///
/// # fn main() -> Result<(), limiter_core::Error> {
/// let breaker = CircuitBreaker::new(Duration::from_millis(500), SystemClock::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CircuitBreaker(Arc<Shared>);

struct Shared {
    silence: Duration,
    clock: Arc<dyn Clock>,
    servers: [OfServer; SERVERS],
    /// How many are open.
    open: AtomicUsize,
    watchers: Mutex<Watchers>,
    /// What the limiters on the connection share besides, by its type.
    shared: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

#[derive(Debug)]
struct OfServer {
    breaker: Breaker,
    /// Why it is open.
    cause: ArcSwapOption<String>,
}

/// Servers with larger numbers share the breaker of another server.
const SERVERS: usize = 32;

/// What learns of changes, such as the events of a limiter.
pub(crate) trait Watch: Send + Sync {
    /// Called for each change, and again for each call that fails while the breaker is open, with the address of the
    /// server if there are several, and the error of the call.
    fn breaker(&self, change: Change, node: Option<&Arc<str>>, cause: Option<&CallError>);

    /// Called when a node of a cluster is not in use any more, whether or not it has failed.
    fn forgets(&self, node: &Arc<str>);
}

#[derive(Default)]
struct Watchers {
    all: Vec<Weak<dyn Watch>>,
    /// Those that have ended are removed when there are more.
    sweep_at: usize,
}

/// The number and the name of a server, if there are several.
pub(crate) type Server = Option<(usize, Arc<str>)>;

/// The permission for one call, and the server that it is for, if there are several.
#[must_use = "a call's outcome has to be noted"]
pub(crate) struct Pass {
    pass: breaker::Pass,
    server: Server,
}

impl CircuitBreaker {
    /// The default time of silence.
    pub const DEFAULT_SILENCE: Duration = Duration::from_millis(250);

    const RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

    /// Returns a circuit breaker that opens after so long a silence, by this clock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `silence` is not from 10 ms to 10 s.
    pub fn new(silence: Duration, clock: impl Clock + 'static) -> Result<Self, Error> {
        let invalid = |why| Error::new(ErrorKind::InvalidSetting, why);
        Self::check(silence).map_err(invalid)?;
        Ok(Self::of(silence, Arc::new(clock)))
    }

    /// Returns what is wrong with a time of silence.
    pub(crate) fn check(silence: Duration) -> Result<(), String> {
        let (least, most) = (Self::RANGE.start(), Self::RANGE.end());
        if Self::RANGE.contains(&silence) {
            return Ok(());
        }
        Err(format!("invalid silence of {silence:?}: use {least:?} to {most:?}"))
    }

    pub(crate) fn of(silence: Duration, clock: Arc<dyn Clock>) -> Self {
        let servers = std::array::from_fn(|_| OfServer {
            breaker: Breaker::new(silence),
            cause: ArcSwapOption::empty(),
        });
        let (open, watchers) = (AtomicUsize::new(0), Mutex::default());
        let shared = Mutex::default();
        Self(Arc::new(Shared { silence, clock, servers, open, watchers, shared }))
    }

    /// Adds what learns of changes from now on, while it exists.
    pub(crate) fn watch(&self, watcher: &Weak<dyn Watch>) {
        let mut watchers = self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.all.len() >= watchers.sweep_at {
            watchers.all.retain(|watcher| watcher.strong_count() > 0);
            watchers.sweep_at = 2 * watchers.all.len() + 8;
        }
        watchers.all.push(Weak::clone(watcher));
    }

    /// Returns what the limiters on the connection share besides, one of each type.
    pub(crate) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.0.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shared.iter().find_map(|it| Arc::clone(it).downcast().ok());
        known.unwrap_or_else(|| {
            let new = Arc::<T>::default();
            shared.push(Arc::clone(&new) as _);
            new
        })
    }

    /// Returns for how long calls fail before it opens.
    pub(crate) fn silence(&self) -> Duration {
        self.0.silence
    }

    /// Returns the error of a call, if it would not be sent now. Its server is only asked for while one is not called.
    pub(crate) fn refuses(&self, server: impl FnOnce() -> Server) -> Option<CallError> {
        if self.0.open.load(Relaxed) == 0 {
            return None;
        }
        let server = server();
        let at = self.at(server.as_ref());
        at.breaker.refuses(self.0.clock.now()).then(|| at.error(server.as_ref()))
    }

    /// Returns the permission to send a call now, in any case if it `is_urgent`.
    ///
    /// # Errors
    ///
    /// That it must not be sent.
    pub(crate) fn pass(&self, server: Server, is_urgent: bool) -> Result<Pass, CallError> {
        let (at, now) = (self.at(server.as_ref()), self.0.clock.now());
        let passes = || is_urgent.then(|| at.breaker.pass_always(now));
        match passes().or_else(|| at.breaker.pass(now)) {
            Some(pass) => Ok(Pass { pass, server }),
            None => Err(at.error(server.as_ref())),
        }
    }

    /// Notes the outcome of a call: its error, if it failed.
    pub(crate) fn note(&self, Pass { pass, server }: &Pass, error: Option<&CallError>) {
        let failed = match error.map(|error| (error, error.fault().server_failed())) {
            // Says nothing about the server.
            Some((_, None)) => return,
            Some((error, Some(true))) => Some(error),
            _ => None,
        };
        let breaker = &self.at(server.as_ref()).breaker;
        let Some(error) = failed else {
            return self.changed(breaker.replied(), server.as_ref(), None);
        };
        let now = self.0.clock.now();
        match &error.called {
            // The server that has the key has replied, by naming the other one.
            Some(called) => {
                self.changed(breaker.replied(), server.as_ref(), None);
                let change = self.at(Some(called)).breaker.failed_now(now);
                self.changed(change, Some(called), Some(error));
            }
            // However long it waited for a connection.
            None if error.fault() == Fault::NotSent => {
                self.changed(breaker.failed_now(now), server.as_ref(), Some(error));
            }
            None => self.changed(breaker.failed(*pass, now), server.as_ref(), Some(error)),
        }
    }

    /// Closes the breaker of a server that is not in use any more, and ends its outage.
    pub(crate) fn forget(&self, server: &(usize, Arc<str>)) {
        self.changed(self.at(Some(server)).breaker.replied(), Some(server), None);
        for watcher in self.watchers() {
            watcher.forgets(&server.1);
        }
    }

    fn changed(
        &self,
        change: Option<Change>,
        server: Option<&(usize, Arc<str>)>,
        cause: Option<&CallError>,
    ) {
        let Some(change) = change else { return };
        match change {
            Change::Opened => _ = self.0.open.fetch_add(1, Relaxed),
            Change::Closed => _ = self.0.open.fetch_sub(1, Relaxed),
            Change::StaysOpen => {}
        }
        self.at(server).cause.store(cause.map(|cause| Arc::new(cause.to_string())));
        for watcher in self.watchers() {
            watcher.breaker(change, server.map(|(_, name)| name), cause);
        }
    }

    /// Returns what learns of changes. The lock ends here: a watcher may log, and a subscriber of logs may use a limiter.
    fn watchers(&self) -> Vec<Arc<dyn Watch>> {
        let watchers = self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the breaker of a server. The first is for keys whose server is not known, and for clients with one
    /// server.
    fn at(&self, server: Option<&(usize, Arc<str>)>) -> &OfServer {
        let index = server.map_or(0, |(number, _)| 1 + number % (SERVERS - 1));
        // There is one for each remainder.
        self.0.servers.get(index).unwrap_or(&self.0.servers[0])
    }
}

impl OfServer {
    /// Returns the error of a call that is not sent, while the circuit breaker is open.
    fn error(&self, server: Option<&(usize, Arc<str>)>) -> CallError {
        let node = server.map_or(String::new(), |(_, name)| format!(" at {name}"));
        let cause = self.cause.load();
        let cause = cause.as_ref().map_or(String::new(), |cause| format!(": {cause}"));
        let message = format!("Redis{node} failed recently and is not called{cause}");
        CallError::new(Fault::NotSent, message)
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::of(Self::DEFAULT_SILENCE, Arc::new(SystemClock::new()))
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { silence, open, .. } = &*self.0;
        f.debug_struct("CircuitBreaker").field("silence", silence).field("open", open).finish()
    }
}
