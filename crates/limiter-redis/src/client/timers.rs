//! The timers of callers, on a thread of their own.
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
    runtime::{Builder, Handle},
    time,
};

/// Started for the first connection. Connections keep the handle.
static TIMERS: Mutex<Option<Handle>> = Mutex::new(None);

/// Starts the thread unless it runs.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system starts no thread.
pub(crate) fn start() -> Result<Handle, Error> {
    // No operation under the lock can leave it half done.
    let mut timers = TIMERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*timers {
        return Ok(handle.clone());
    }
    let handle = spawn().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "can't start the thread of timers").with_source(error)
    })?;
    *timers = Some(handle.clone());
    Ok(handle)
}

fn spawn() -> io::Result<Handle> {
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
