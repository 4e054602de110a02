//! Tasks, and the processes to which they belong.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Wake,
};

use crate::{sync::lock, vocabulary::ProcessId};

pub(super) type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks that were woken, in this order.
#[derive(Default)]
pub(super) struct Ready(Mutex<VecDeque<u64>>);

impl Ready {
    pub(super) fn pop(&self) -> Option<u64> {
        lock(&self.0).pop_front()
    }

    fn push(&self, task: u64) {
        lock(&self.0).push_back(task);
    }
}

/// Wakes a task. A task that is woken again before it runs, runs once.
pub(super) struct TaskWaker {
    task: u64,
    is_woken: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Relaxed) {
            self.ready.push(self.task);
        }
    }
}

/// All tasks that have not ended.
pub(super) struct Tasks {
    tasks: BTreeMap<u64, Task>,
    /// The processes that were not killed.
    processes: BTreeMap<ProcessId, Process>,
    /// How many tasks were spawned.
    spawned: u64,
    ready: Arc<Ready>,
}

struct Task {
    process: ProcessId,
    /// `None` while it is polled.
    future: Option<BoxFuture>,
    waker: Arc<TaskWaker>,
}

#[derive(Default)]
struct Process {
    is_stopped: bool,
    /// Tasks that were woken while the process was stopped.
    woken: Vec<u64>,
    tasks: usize,
}

impl Tasks {
    pub(super) const fn new(ready: Arc<Ready>) -> Self {
        Self { tasks: BTreeMap::new(), processes: BTreeMap::new(), spawned: 0, ready }
    }

    pub(super) fn start(&mut self, process: ProcessId) {
        self.processes.insert(process, Process::default());
    }

    pub(super) fn stop(&mut self, process: ProcessId) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.is_stopped = true;
        }
    }

    pub(super) fn resume(&mut self, process: ProcessId) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.is_stopped = false;
            process.woken.drain(..).for_each(|task| self.ready.push(task));
        }
    }

    /// Returns the tasks of the process, to be dropped without a lock.
    pub(super) fn kill(&mut self, process: ProcessId) -> Vec<BoxFuture> {
        self.processes.remove(&process);
        let killed = self.tasks.iter().filter(|(_, task)| task.process == process);
        let killed: Vec<u64> = killed.map(|(id, _)| *id).collect();
        killed.into_iter().filter_map(|id| self.tasks.remove(&id)?.future).collect()
    }

    /// Returns all tasks, to be dropped without a lock.
    pub(super) fn clear(&mut self) -> Vec<BoxFuture> {
        self.processes.clear();
        mem::take(&mut self.tasks).into_values().filter_map(|task| task.future).collect()
    }

    pub(super) fn number(&self, process: ProcessId) -> usize {
        self.processes.get(&process).map_or(0, |process| process.tasks)
    }

    /// Returns the future if the process was killed.
    pub(super) fn spawn(&mut self, process: ProcessId, future: BoxFuture) -> Option<BoxFuture> {
        let Some(owner) = self.processes.get_mut(&process) else { return Some(future) };
        owner.tasks += 1;
        self.spawned += 1;
        let (task, ready) = (self.spawned, Arc::clone(&self.ready));
        let waker = Arc::new(TaskWaker { task, is_woken: AtomicBool::new(true), ready });
        self.tasks.insert(task, Task { process, future: Some(future), waker });
        self.ready.push(task);
        None
    }

    /// Takes the future of a task to poll it, `None` if the task has ended or has to wait for its process.
    pub(super) fn take(&mut self, id: u64) -> Option<(BoxFuture, Arc<TaskWaker>)> {
        let task = self.tasks.get_mut(&id)?;
        let process = self.processes.get_mut(&task.process)?;
        if process.is_stopped {
            process.woken.push(id);
            return None;
        }
        task.waker.is_woken.store(false, Relaxed);
        Some((task.future.take()?, Arc::clone(&task.waker)))
    }

    pub(super) fn put_back(&mut self, id: u64, future: BoxFuture) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.future = Some(future);
        }
    }

    pub(super) fn end(&mut self, id: u64) {
        let Some(task) = self.tasks.remove(&id) else { return };
        if let Some(process) = self.processes.get_mut(&task.process) {
            process.tasks -= 1;
        }
    }
}
