//! The threads that run connections, and the timers of callers.
//!
//! A caller's runtime may have no timers, and Tokio does not say so: it panics. The runtime of a connection may be
//! busy, which is what a caller's deadline is for. So the timers of all callers of a process are on one thread
//! that does nothing else.

use std::{
    future::{Future, pending},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
    time,
};

/// The size of a thread's stack. The system provides only the pages in use.
///
/// `fred`'s decoder (`redis-protocol` 6.0.0, `d_parse_frame`) calls itself for each level of a nested reply,
/// without a bound, and a stack that is too small ends the process. This one holds 24,000 levels in a build
/// without optimization, and more with it. Scripts reply with two.
const STACK: usize = 128 << 20;

/// The runtime of a connection: a thread that ends when the driver is dropped, or a runtime of the caller.
///
/// On a runtime of the caller, a call may wait for a busy worker, because Tokio does not steal the task
/// that a worker has woken last. `busy.rs` of limiter-rig shows that it
/// does not wait on a driver's thread.
pub(crate) struct Driver {
    runtime: Handle,
    /// Ends the thread when it is dropped. The thread owns the runtime, and drops its tasks, and so the
    /// connections. So a driver can be dropped anywhere, also on its own thread.
    _alive: Option<oneshot::Sender<()>>,
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let failed = |error: io::Error| {
            let message = format!("can't start the thread of a Redis connection: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, stopped) = oneshot::channel();
        let (give, take) = mpsc::channel::<Runtime>();
        let run = move || drop(take.recv().map(|runtime| runtime.block_on(stopped)));
        let thread = thread::Builder::new().name("limiter-redis".to_owned()).stack_size(STACK);
        if let Err(error) = thread.spawn(run) {
            // To drop it panics where another runtime runs.
            runtime.shutdown_background();
            return Err(failed(error));
        }
        drop(give.send(runtime));
        Ok(Self { runtime: handle, _alive: Some(alive) })
    }

    /// Returns the driver of a connection on `runtime`.
    pub(crate) const fn on(runtime: Handle) -> Self {
        Self { runtime, _alive: None }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// Started for the first connection. Connections keep the handle.
static TIMERS: Mutex<Option<Handle>> = Mutex::new(None);

/// Starts the thread of the timers unless it runs.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system starts no thread.
pub(crate) fn timers() -> Result<Handle, Error> {
    // No operation under the lock can leave it half done.
    let mut timers = TIMERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*timers {
        return Ok(handle.clone());
    }
    let handle = spawn_timers().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "can't start the thread of timers").with_source(error)
    })?;
    *timers = Some(handle.clone());
    Ok(handle)
}

fn spawn_timers() -> io::Result<Handle> {
    let (send, receive) = mpsc::channel();
    let run = move || match Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => {
            drop(send.send(Ok(runtime.handle().clone())));
            loop {
                // A caller's waker may panic.
                drop(catch_unwind(AssertUnwindSafe(|| runtime.block_on(pending::<()>()))));
            }
        }
        Err(error) => drop(send.send(Err(error))),
    };
    thread::Builder::new().name("limiter-timers".to_owned()).spawn(run)?;
    receive.recv().map_err(io::Error::other)?
}

/// Returns a future that is ready after `time`, which need not be polled on a Tokio runtime.
pub(crate) fn sleep(timers: &Handle, time: Duration) -> impl Future<Output = ()> + Send + 'static {
    let _context = timers.enter();
    time::sleep(time)
}
