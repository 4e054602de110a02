//! The runtime on which a connection runs.

use std::{sync::Arc, thread};

use limiter_core::{Error, ErrorKind};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The size of the thread's stack, of which the system provides the pages in use.
///
/// `fred`'s decoder (`redis-protocol` 6.0.0, `d_parse_frame`) calls itself for each level of a nested reply,
/// without a bound, and a stack that is too small ends the process. This one holds 16,000 levels, and 4,000
/// in a build without optimization. Scripts reply with two.
const STACK: usize = 32 << 20;

/// The runtime of a connection: by default on a thread of its own, which ends when the driver is dropped.
///
/// On a runtime of the caller, a call may wait for a busy worker, because Tokio does not steal the task
/// that a worker has woken last. `tests/it/busy.rs` shows that it does not wait on its own thread.
pub(crate) struct Driver {
    runtime: Handle,
    /// Ends the thread when it is dropped. The thread drops its tasks, and so the connections.
    _alive: Option<oneshot::Sender<()>>,
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Arc<Self>, Error> {
        let failed = |error| {
            let message = "can't start the thread of a Redis connection";
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("limiter-redis".to_owned()).stack_size(STACK);
        thread.spawn(move || drop(runtime.block_on(stopped))).map_err(failed)?;
        Ok(Arc::new(Self { runtime: handle, _alive: Some(alive) }))
    }

    /// Returns the driver of a connection on `runtime`.
    pub(crate) fn on(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, _alive: None })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}
