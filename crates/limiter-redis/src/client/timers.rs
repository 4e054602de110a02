//! The timers of callers, on a thread of their own.
//!
//! A caller's runtime may have no timers, and Tokio does not say so: it panics. The runtime of a connection may be
//! busy, which is what a caller's deadline is for. So the timers of all callers of a process are on one thread
//! that does nothing else.

use std::{
    future::{Future, pending},
    io,
    mem::ManuallyDrop,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle},
    time,
};

/// Started for the first connection, and anew if the thread ended by a panic. A check takes no lock to read it.
static TIMERS: ArcSwapOption<Timers> = ArcSwapOption::const_empty();

/// Locked while the thread is started.
static START: Mutex<()> = Mutex::new(());

struct Timers {
    runtime: Handle,
    thread: JoinHandle<()>,
}

impl Timers {
    fn start() -> io::Result<Self> {
        let (send, receive) = mpsc::channel();
        let run = move || match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => {
                // If a caller's waker panics, the thread ends. Timers that then exist must not panic as well.
                let runtime = ManuallyDrop::new(runtime);
                drop(send.send(Ok(runtime.handle().clone())));
                runtime.block_on(pending::<()>());
            }
            Err(error) => drop(send.send(Err(error))),
        };
        let thread = thread::Builder::new().name("limiter-timers".to_owned()).spawn(run)?;
        let runtime = receive.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, thread })
    }
}

/// Starts the thread unless it runs.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system starts no thread.
pub(crate) fn start() -> Result<Handle, Error> {
    if let Some(runtime) = running() {
        return Ok(runtime);
    }
    let _lock = START.lock().unwrap_or_else(PoisonError::into_inner);
    // Another caller may have started it.
    if let Some(runtime) = running() {
        return Ok(runtime);
    }
    let started = Timers::start().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "can't start the thread of timers").with_source(error)
    })?;
    let runtime = started.runtime.clone();
    TIMERS.store(Some(Arc::new(started)));
    Ok(runtime)
}

/// Returns the runtime of the thread, if that runs.
fn running() -> Option<Handle> {
    let timers = TIMERS.load();
    timers.as_ref().filter(|timers| !timers.thread.is_finished()).map(|it| it.runtime.clone())
}

/// Returns a future that is ready after `time`, which need not be polled on a Tokio runtime. It is ready at once if
/// the thread ended by a panic and the system starts no other.
pub(crate) fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
    let sleep = start().ok().map(|runtime| {
        let _context = runtime.enter();
        time::sleep(time)
    });
    async move {
        if let Some(sleep) = sleep {
            sleep.await;
        }
    }
}
