//! The timers of callers, on a thread of their own.
//!
//! A caller's runtime may have no timers, and Tokio does not say so: it panics. The runtime of a connection may be
//! busy, which is what a caller's deadline is for. So the timers of all callers of a process are on one thread
//! that does nothing else.

use std::{
    future::{Future, poll_fn},
    io,
    mem::ManuallyDrop,
    pin::pin,
    process,
    sync::mpsc,
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    time::{self, Sleep, error::Elapsed},
};

use crate::{call::queue::let_ready_tasks_run, client::driver::Latest};

/// Started for the first answer, and once more in a forked child.
static TIMERS: Latest<Option<Timers>> = Latest::new(None);

struct Timers {
    /// The process in which the thread runs.
    process: u32,
    runtime: Handle,
    thread: JoinHandle<()>,
    /// Ends the thread when it is dropped: of two that are started at the same moment, one is dropped.
    _alive: oneshot::Sender<()>,
}

impl Timers {
    fn start() -> io::Result<Self> {
        let (alive, ended) = oneshot::channel();
        let (send, receive) = mpsc::channel();
        let run = move || match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => {
                // If a caller's waker panics, the thread ends. Timers that then exist must not panic as well.
                let runtime = ManuallyDrop::new(runtime);
                drop(send.send(Ok(runtime.handle().clone())));
                drop(runtime.block_on(ended));
                drop(ManuallyDrop::into_inner(runtime));
            }
            Err(error) => drop(send.send(Err(error))),
        };
        let thread = thread::Builder::new().name("limiter-timers".to_owned()).spawn(run)?;
        let runtime = receive.recv().map_err(io::Error::other)??;
        Ok(Self { process: process::id(), runtime, thread, _alive: alive })
    }

    fn has_ended(&self) -> bool {
        self.process != process::id() || self.thread.is_finished()
    }
}

/// Returns the runtime of the timers.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system starts no thread.
pub(crate) fn runtime() -> Result<&'static Handle, Error> {
    let mut failed = None;
    let is_stale = |timers: &Option<Timers>| timers.as_ref().is_none_or(Timers::has_ended);
    let timers = TIMERS.get(is_stale, || match Timers::start() {
        Ok(timers) => Some(Some(timers)),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    match (timers, failed) {
        (Some(timers), None) => Ok(&timers.runtime),
        (_, error) => {
            let failed = Error::new(ErrorKind::Unavailable, "can't start the thread of timers");
            Err(match error {
                Some(error) => failed.with_source(error),
                None => failed,
            })
        }
    }
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
    let _context = runtime()?.enter();
    Ok(time::sleep(delay))
}
