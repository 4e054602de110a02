//! Runs all tasks of all processes in one thread, by a clock of whole microseconds that jumps from event to event.
//!
//! The order is fixed: events by their time, and by their number if they have the same time; tasks in the order in
//! which they were woken. A task runs before the next event, and takes no simulated time.

mod queue;
mod tasks;

use std::{
    fmt,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use self::{
    queue::Queue,
    tasks::{Ready, Tasks},
};
use crate::{
    sync::lock,
    vocabulary::{Micros, ProcessId},
};

/// The executor. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Core>);

struct Core {
    now: AtomicU64,
    queue: Mutex<Queue>,
    tasks: Mutex<Tasks>,
    ready: Arc<Ready>,
    /// Over the time of each event, and over each task that was polled.
    hasher: Mutex<DefaultHasher>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executor at {} us", self.now())
    }
}

impl Executor {
    /// Returns an executor at time 0, without processes.
    pub(crate) fn new() -> Self {
        let ready = Arc::new(Ready::default());
        Self(Arc::new(Core {
            now: AtomicU64::new(0),
            queue: Mutex::default(),
            tasks: Mutex::new(Tasks::new(Arc::clone(&ready))),
            ready,
            hasher: Mutex::default(),
        }))
    }

    /// Returns the simulated time.
    pub(crate) fn now(&self) -> Micros {
        self.0.now.load(Relaxed)
    }

    /// Runs an action at a time, at once if that is over.
    pub(crate) fn at(&self, time: Micros, action: impl FnOnce() + Send + 'static) {
        lock(&self.0.queue).push(time.max(self.now()), Box::new(action));
    }

    /// Runs an action after a time.
    pub(crate) fn after(&self, time: Micros, action: impl FnOnce() + Send + 'static) {
        self.at(self.now().saturating_add(time), action);
    }

    /// Starts a process, which has no tasks yet.
    pub(crate) fn start(&self, process: ProcessId) {
        lock(&self.0.tasks).start(process);
    }

    /// Stops a process: its tasks wait until it is resumed.
    pub(crate) fn stop(&self, process: ProcessId) {
        lock(&self.0.tasks).stop(process);
    }

    /// Resumes a process that was stopped.
    pub(crate) fn resume(&self, process: ProcessId) {
        lock(&self.0.tasks).resume(process);
    }

    /// Kills a process: its tasks are dropped, and it can't spawn others.
    pub(crate) fn kill(&self, process: ProcessId) {
        let dropped = lock(&self.0.tasks).kill(process);
        // What they drop may call the executor.
        drop(dropped);
    }

    /// Returns how many tasks of a process have not ended.
    pub(crate) fn tasks(&self, process: ProcessId) -> usize {
        lock(&self.0.tasks).number(process)
    }

    /// Spawns a task of a process. Drops it if the process was killed.
    pub(crate) fn spawn(
        &self,
        process: ProcessId,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let refused = lock(&self.0.tasks).spawn(process, Box::pin(task));
        drop(refused);
    }

    /// Runs all tasks that are ready and all events up to a time.
    pub(crate) fn run_until(&self, end: Micros) {
        loop {
            while let Some(task) = self.0.ready.pop() {
                self.poll(task);
            }
            let next = lock(&self.0.queue).pop_until(end);
            let Some((time, action)) = next else { break };
            self.0.now.store(time, Relaxed);
            time.hash(&mut *lock(&self.0.hasher));
            action();
        }
        self.0.now.store(end.max(self.now()), Relaxed);
    }

    /// Drops all events and kills all processes, which hold clones of the executor.
    pub(crate) fn clear(&self) {
        let dropped = lock(&self.0.tasks).clear();
        drop(dropped);
        let events = std::mem::take(&mut *lock(&self.0.queue));
        drop(events);
    }

    /// Returns a hash over all that has run.
    pub(crate) fn hash(&self) -> u64 {
        lock(&self.0.hasher).finish()
    }

    fn poll(&self, id: u64) {
        let Some((mut future, waker)) = lock(&self.0.tasks).take(id) else { return };
        id.hash(&mut *lock(&self.0.hasher));
        let waker = Waker::from(waker);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                drop(future);
                lock(&self.0.tasks).end(id);
            }
            Poll::Pending => lock(&self.0.tasks).put_back(id, future),
        }
    }
}

#[cfg(test)]
mod tests;
