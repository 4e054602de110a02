//! Checks made at the same moment through one limiter, sent in one script call.

use std::{
    future::poll_fn,
    mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    task::Poll,
    time::Instant,
};

use limiter_core::{Cost, Decision, Error};
use tokio::sync::oneshot;

use super::{
    deadline::{Deadline, run_once},
    denials::{Denial, Ticket},
    faults::{CallError, Fault, Outcome},
};
use crate::{
    client::{ScriptClient, ScriptReply, command::quoted},
    handle::Handle,
    limiter::RedisLimiter,
    scripts::numbers,
    shared::{Access, Shared},
};

/// The checks of a limiter that wait for a task to send them, under whatever policies.
///
/// The first check starts the task, which ends when no checks are queued.
#[derive(Default)]
pub(crate) struct BatchQueue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    /// The process whose task sends the checks.
    process: u32,
    checks: Vec<Check>,
}

/// A check that waits to be sent, or was sent.
pub(crate) struct Check {
    key: Vec<u8>,
    /// The policy of the check.
    handle: Arc<Handle>,
    cost: Cost,
    deadline: Deadline,
    ticket: Ticket,
    answer: oneshot::Sender<Outcome<Decision>>,
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// Charges `cost` now, without a receipt, in one call with other checks of the same moment.
    ///
    /// A check that was sent outlives its caller. A check that was not sent yet is dropped with it.
    pub(crate) async fn send_check(&self, key: &[u8], cost: Cost) -> Result<Decision, Error> {
        self.ask(key, Access::Write, |deadline, answer| {
            let Self { shared, handle } = self;
            let (limiter, client) = (self.clone(), &shared.client);
            let ticket = shared.denials.ticket(key);
            let (key, handle) = (key.to_vec(), Arc::clone(handle));
            let check = Check { key, handle, cost, deadline, ticket, answer };
            if !shared.batches.load(Relaxed) {
                drop(client.runtime().spawn(async move { limiter.send_each(vec![check]).await }));
            } else if shared.queue.push(check) {
                let turn = Turn { shared: Arc::clone(shared), is_over: false };
                drop(client.runtime().spawn(limiter.send_queued(turn)));
            }
        })
        .await
    }

    /// Sends the checks that wait, after all tasks that are ready could add theirs.
    async fn send_queued(self, turn: Turn<C>) {
        let_ready_tasks_run().await;
        let mut checks = turn.take();
        checks.retain(|check| !check.answer.is_closed());
        let most = self.handle.plan.max_batch();
        while checks.len() > most {
            // The last ones first, because Tokio runs the task that was spawned last first.
            let last = checks.split_off((checks.len() - 1) / most * most);
            let limiter = self.clone();
            drop(tokio::spawn(async move { limiter.send_batch(last).await }));
        }
        self.send_batch(checks).await;
    }

    /// Sends a batch, and the checks of a batch that the server refuses one by one.
    async fn send_batch(&self, checks: Vec<Check>) {
        let refused = self.send(checks).await;
        self.send_each(refused).await;
    }

    async fn send_each(&self, checks: Vec<Check>) {
        for check in checks {
            drop(self.send(vec![check]).await);
        }
    }

    /// Sends checks in one call, and answers their callers. Checks that were not executed are sent
    /// once more.
    ///
    /// Returns the checks if their keys are in several slots of a cluster.
    async fn send(&self, mut checks: Vec<Check>) -> Vec<Check> {
        let shared = &self.shared;
        for is_last in [false, true] {
            checks.retain(|check| !check.answer.is_closed());
            let Some(first) = checks.first() else { break };
            let (deadline, node) = (first.deadline, first.key.clone());
            let sent = Instant::now();
            let pass = match shared.breaker(&node, Access::Write).pass(sent) {
                Ok(pass) => pass,
                Err(open) => {
                    let error = shared.breaker_is_open(&node, open);
                    for check in checks {
                        drop(check.answer.send(Err(Arc::clone(&error))));
                    }
                    break;
                }
            };
            let costs: Vec<_> =
                checks.iter().map(|check| (&check.handle.plan, check.cost)).collect();
            let mut call = first.handle.plan.checks(&costs);
            call.keys = checks.iter_mut().map(|check| mem::take(&mut check.key)).collect();
            let result = run_once(&shared.client, &mut call, deadline).await;
            for (check, key) in checks.iter_mut().zip(call.keys) {
                check.key = key;
            }
            let is_refused = |error: &CallError| error.fault() == Fault::CrossSlot;
            if checks.len() > 1 && result.as_ref().is_err_and(is_refused) {
                shared.stop_batches(&node);
                return checks;
            }
            let answers = self.decisions(result, &checks);
            // The first error by which the server failed, or the first one.
            let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
            let error = errors.min_by_key(|error| error.fault().server_failed() == Some(false));
            shared.note(pass, (&node, Access::Write), error.map(|error| &**error));

            let mut not_executed = Vec::new();
            for (check, answer) in checks.into_iter().zip(answers) {
                let error = answer.as_ref().err().filter(|_| !is_last);
                if error.is_some_and(|error| error.fault().may_be_sent_again()) {
                    not_executed.push((check, answer));
                } else {
                    self.deliver(check, answer, sent);
                }
            }
            if !not_executed.is_empty() && !deadline.pause().await {
                for (check, answer) in mem::take(&mut not_executed) {
                    self.deliver(check, answer, sent);
                }
            }
            checks = not_executed.into_iter().map(|(check, _)| check).collect();
        }
        Vec::new()
    }

    /// Returns what the result of one call decides for each of its checks.
    fn decisions(
        &self,
        result: Result<ScriptReply, CallError>,
        checks: &[Check],
    ) -> Vec<Outcome<Decision>> {
        let decision = |reply: &ScriptReply, check: &Check| {
            let plan = &check.handle.plan;
            let read = |numbers: &[i64]| plan.checked(numbers, check.cost);
            let (reply, failed) = read_reply(reply, &check.key, read)?;
            if let Some(failed) = failed {
                self.shared.expiry_was_not_restored(failed);
            }
            Ok(reply.decision)
        };
        let error = match (result, checks) {
            (Ok(reply), [check]) => return vec![decision(&reply, check)],
            (Ok(ScriptReply::Array(replies)), _) if replies.len() == checks.len() => {
                let pairs = replies.iter().zip(checks);
                return pairs.map(|(reply, check)| decision(reply, check)).collect();
            }
            (Ok(reply), _) => invalid_reply(&reply),
            (Err(error), _) => error,
        };
        let error = Arc::new(error);
        checks.iter().map(|_| Err(Arc::clone(&error))).collect()
    }

    /// Counts a check's outcome, caches a denial, and answers the caller if it still waits.
    fn deliver(&self, check: Check, answer: Outcome<Decision>, sent: Instant) {
        let Check { key, handle, cost, deadline, ticket, answer: caller } = check;
        let limiter = Self { shared: Arc::clone(&self.shared), handle };
        match &answer {
            Ok(decision) => {
                let (decision, received) = (*decision, Instant::now());
                limiter.decided(ticket, &key, Denial { cost, decision, sent, received });
                // A caller whose time is over got the error of a missing reply, and has asked the local
                // fallback itself.
                if !caller.is_closed() {
                    let local = limiter.handle.local.as_ref().filter(|_| decision.is_admitted());
                    drop(local.and_then(|local| local.follow(&key, cost)));
                } else if deadline.left().is_zero() {
                    let late = CallError::new(Fault::NoReply, "the reply came after the deadline");
                    limiter.report_error(&key, &late);
                }
            }
            Err(error) => limiter.report_error(&key, error),
        }
        drop(caller.send(answer));
    }
}

/// Reads a reply for one key, or the error that a script replies in its place. The text is the error of
/// a command that did not keep the script from its reply.
pub(crate) fn read_reply<'a, T>(
    reply: &'a ScriptReply,
    key: &[u8],
    read: impl FnOnce(&[i64]) -> Option<T>,
) -> Result<(T, Option<&'a str>), CallError> {
    if let ScriptReply::Text(words) = reply {
        return Err(CallError::of_command("Redis", words, key));
    }
    let parts = numbers(reply);
    let value = parts.and_then(|(numbers, failed)| Some((read(&numbers)?, failed)));
    value.ok_or_else(|| invalid_reply(reply))
}

/// Returns the error of a reply that no script of this library returns.
fn invalid_reply(reply: &ScriptReply) -> CallError {
    let message = format!("the script replied {}, which is not a decision", quoted(reply));
    CallError::new(Fault::InvalidReply, message)
}

/// Lets the tasks that are ready run first. Unlike Tokio's `yield_now`, this does not poll the network
/// in between, which is a system call.
async fn let_ready_tasks_run() {
    let mut has_waited = false;
    poll_fn(|context| {
        if mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A task's turn to send the queued checks. If it is dropped early, because its runtime is shut down,
/// it removes them, so that the next check starts another task.
struct Turn<C> {
    shared: Arc<Shared<C>>,
    /// Checks that are queued after this need another task.
    is_over: bool,
}

impl<C> Turn<C> {
    fn take(mut self) -> Vec<Check> {
        self.is_over = true;
        self.shared.queue.take()
    }
}

impl<C> Drop for Turn<C> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.shared.queue.take());
        }
    }
}

impl BatchQueue {
    /// Adds a check, and returns whether it is the first.
    fn push(&self, check: Check) -> bool {
        let process = process::id();
        let mut queued = self.lock();
        if queued.process != process {
            // In a forked child, these are its parent's. To drop them would wake the parent's runtimes.
            mem::forget(mem::take(&mut queued.checks));
            queued.process = process;
        }
        queued.checks.push(check);
        queued.checks.len() == 1
    }

    fn take(&self) -> Vec<Check> {
        mem::take(&mut self.lock().checks)
    }

    fn lock(&self) -> MutexGuard<'_, Queued> {
        // No operation under the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
