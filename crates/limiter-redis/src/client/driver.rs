//! The threads that run connections.

use std::{
    cell::Cell,
    io, process,
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

/// The size of a thread's stack, of which the system provides the pages in use.
///
/// `fred`'s decoder (`redis-protocol` 6.0.0, `d_parse_frame`) calls itself for each level of a nested reply,
/// without a bound, and a stack that is too small ends the process. This one holds 24,000 levels in a build
/// without optimization, and more with it. Scripts reply with two.
const STACK: usize = 128 << 20;

thread_local! {
    /// The number of the driver whose thread this is.
    static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The runtime of connections: a thread that ends when the driver is dropped, or a runtime of the caller.
///
/// On a runtime of the caller, a call may wait for a busy worker, because Tokio does not steal the task
/// that a worker has woken last. `tests/it/busy.rs` shows that it does not wait on a driver's thread.
pub(crate) struct Driver {
    runtime: Handle,
    thread: Option<Thread>,
}

struct Thread {
    /// The process in which the thread runs. A forked child has a copy of the driver without the thread.
    process: u32,
    /// Ends the thread when it is dropped. The thread owns the runtime, and drops its tasks, and so the
    /// connections. So a driver can be dropped anywhere, also on its own thread.
    alive: oneshot::Sender<()>,
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start(number: u32) -> Result<Arc<Self>, Error> {
        let failed = |error: io::Error| {
            let message = format!("can't start the thread of a Redis connection: {error}");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, stopped) = oneshot::channel();
        let (give, take) = mpsc::channel::<Runtime>();
        let run = move || {
            NUMBER.set(Some(number));
            drop(take.recv().map(|runtime| runtime.block_on(stopped)));
        };
        let thread = thread::Builder::new().name("limiter-redis".to_owned()).stack_size(STACK);
        if let Err(error) = thread.spawn(run) {
            // To drop it panics where another runtime runs.
            runtime.shutdown_background();
            return Err(failed(error));
        }
        drop(give.send(runtime));
        let thread = Some(Thread { process: process::id(), alive });
        Ok(Arc::new(Self { runtime: handle, thread }))
    }

    /// Returns the driver of a connection on `runtime`.
    pub(crate) fn on(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, thread: None })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns whether the thread ended by a panic, or is one of the process that was forked.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.alive.is_closed()) || self.is_inherited()
    }

    /// Returns whether this process is a forked child of the one that has the thread.
    pub(crate) fn is_inherited(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.process != process::id())
    }

    /// Returns the number of the driver whose thread this is.
    pub(crate) fn current_number() -> Option<u32> {
        NUMBER.get()
    }
}

/// A value that can be replaced. Earlier ones are kept, so that a reference stays valid.
///
/// It has no lock, because one that another thread holds during a fork stays locked in the child.
pub(crate) struct Latest<T> {
    value: T,
    next: OnceLock<Box<Latest<T>>>,
}

impl<T> Latest<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value, next: OnceLock::new() }
    }

    /// Returns the latest value, which is replaced first by the result of `new`, if any, if it `is_stale`.
    pub(crate) fn get(&self, is_stale: impl Fn(&T) -> bool, new: impl FnOnce() -> Option<T>) -> &T {
        let mut latest = self;
        while let Some(next) = latest.next.get() {
            latest = next;
        }
        if !is_stale(&latest.value) {
            return &latest.value;
        }
        // Outside of the cell, so that only a move happens in it.
        let Some(new) = new() else { return &latest.value };
        &latest.next.get_or_init(|| Box::new(Self::new(new))).value
    }
}
