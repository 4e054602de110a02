//! The timers of callers, on a thread of their own.
//!
//! A caller's runtime may have no timers, and Tokio does not say so: it panics. The runtime of a connection may be
//! busy, which is what a caller's deadline is for. So the timers of all callers of a process are on one thread
//! that does nothing else.

use std::{
    future::{Future, pending, poll_fn},
    io,
    mem::ManuallyDrop,
    pin::pin,
    sync::{Mutex, PoisonError, mpsc},
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle},
    time::{self, Sleep, error::Elapsed},
};

use crate::call::queue::let_ready_tasks_run;

/// Started for the first answer, and anew if the thread ended by a panic.
static TIMERS: Mutex<Option<Timers>> = Mutex::new(None);

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

/// Returns the runtime of the timers.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system starts no thread.
pub(crate) fn runtime() -> Result<Handle, Error> {
    // No operation under the lock can leave it half done.
    let mut timers = TIMERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Timers { runtime, thread }) = &*timers
        && !thread.is_finished()
    {
        return Ok(runtime.clone());
    }
    let started = Timers::start().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "can't start the thread of timers").with_source(error)
    })?;
    Ok(timers.insert(started).runtime.clone())
}

/// Returns `future` with a time-out, which need not be polled on a Tokio runtime.
///
/// A runtime that was busy may first poll the caller, and then the task for which it waits. So that the outcome
/// does not depend on this order, tasks that are ready run before the time-out counts.
pub(crate) fn timeout<F: Future>(
    within: Duration,
    future: F,
) -> Result<impl Future<Output = Result<F::Output, Elapsed>>, Error> {
    let runtime = runtime()?;
    Ok(async move {
        let mut future = pin!(future);
        let timed = {
            let _context = runtime.enter();
            time::timeout(within, future.as_mut())
        };
        let elapsed = match timed.await {
            Ok(output) => return Ok(output),
            Err(elapsed) => elapsed,
        };
        let_ready_tasks_run().await;
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready(output) => Ok(output),
            Poll::Pending => Err(elapsed),
        }
    })
}

/// Returns a future that is ready after `delay`, which need not be polled on a Tokio runtime.
pub(crate) fn sleep(delay: Duration) -> Result<Sleep, Error> {
    let runtime = runtime()?;
    let _context = runtime.enter();
    Ok(time::sleep(delay))
}
