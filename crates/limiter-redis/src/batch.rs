//! Checks that are made at the same moment, in one script call.

use std::{
    fmt,
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Instant,
};

use limiter_core::{Cost, Error, ErrorKind};
use tokio::{runtime, sync::oneshot, task};

use crate::{
    acquire,
    breaker::Pass,
    call::{Deadline, call, reason, run},
    client::{RunError, ScriptCall, ScriptClient, ScriptReply},
    command::quoted,
    no_reply::of_one_key,
    scripts::{Plan, Taken},
    shared::Shared,
};

/// How many checks are sent in one call at most: few enough that a server and its clients work at the
/// same time, and that no one else has to wait for long.
const MOST: usize = 32;

/// The checks by one tier that wait for a job to send them.
///
/// They wait by runtime, each for a job on its own: no one waits for a runtime that stands still.
/// Whoever is the first starts the job, and there is one where there is a check.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Vec<(runtime::Id, Vec<Check>)>>);

/// A check that waits, or is under way.
struct Check {
    key: Vec<u8>,
    cost: Cost,
    deadline: Deadline,
    answer: oneshot::Sender<Answer>,
}

/// Several may be told of one error.
type Answer = Result<ScriptReply, Arc<Error>>;

impl<C: ScriptClient> Shared<C> {
    /// Takes `cost` of a key now, without a receipt, together with those who ask at the same moment.
    ///
    /// What was sent is heard of whether or not the caller still waits for it; a check that was not
    /// sent yet is dropped with its caller.
    pub(crate) async fn check(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
        tier: usize,
        key: &[u8],
        cost: Cost,
    ) -> Result<Taken, Error> {
        let runtime = acquire::runtime()?;
        let (pass, deadline, key_of_call) = (self.pass(key, false)?, self.deadline(), key.to_vec());
        let answer = if self.settings.client.takes_many_keys() {
            let (answer, answered) = oneshot::channel();
            let check = Check { key: key_of_call, cost, deadline, answer };
            if plan.queue(tier).push(runtime.id(), check) {
                let plan = Arc::clone(plan);
                let turn = Turn { plan, tier, runtime: runtime.id(), is_over: false };
                drop(runtime.spawn(Arc::clone(self).send_all(turn)));
            }
            answered.await.unwrap_or_else(|_| Err(Arc::new(acquire::shut_down())))
        } else {
            let script_call = plan.check(tier, cost);
            let script = script_call.script;
            let script_call = ScriptCall::new(script_call, vec![key_of_call]);
            // In a box, since it is large and most have no use for it.
            let answer = Box::pin(call(&self.settings.client, script, script_call, deadline));
            answer.await.map_err(Arc::new)
        };
        self.heard(pass, (key, false), answer, |numbers| plan.taken(tier, numbers, cost))
    }

    /// Sends the checks that wait, once those who are awake could join them.
    async fn send_all(self: Arc<Self>, turn: Turn) {
        let_others_run().await;
        let (plan, tier) = (Arc::clone(&turn.plan), turn.tier);
        let mut checks = turn.take();
        checks.retain(|check| !check.answer.is_closed());
        while checks.len() > MOST {
            // The last first, since the task that is made last runs first.
            let last = checks.split_off((checks.len() - 1) / MOST * MOST);
            let (shared, plan) = (Arc::clone(&self), Arc::clone(&plan));
            drop(task::spawn(async move { shared.send(&plan, tier, last).await }));
        }
        self.send(&plan, tier, checks).await;
    }

    /// Sends checks in one call, and tells their callers. What was not executed is sent once more.
    async fn send(&self, plan: &Plan, tier: usize, mut checks: Vec<Check>) {
        for is_last in [false, true] {
            checks.retain(|check| !check.answer.is_closed());
            let Some(first) = checks.first() else { return };
            let deadline = first.deadline;
            let pass = self.breaker(&first.key, false).pass_unless_open(Instant::now());
            let costs = checks.iter().map(|check| check.cost).collect::<Vec<_>>();
            let call = plan.checks(tier, &costs);
            let script = call.script;
            let keys = checks.iter_mut().map(|check| mem::take(&mut check.key)).collect();
            let mut call = ScriptCall::new(call, keys);
            let result = run(&self.settings.client, script, &mut call, deadline).await;

            let has_script = !matches!(result, Err(RunError::NotCached));
            let mut answered = Vec::with_capacity(checks.len());
            let mut not_executed = Vec::new();
            let answers = answers(result, checks.len()).into_iter().zip(call.keys);
            for (mut check, (answer, key)) in checks.drain(..).zip(answers) {
                check.key = key;
                if !is_last && has_script && was_not_executed(&answer) {
                    not_executed.push((check, answer));
                } else {
                    answered.push((check, answer));
                }
            }
            if !not_executed.is_empty() && !deadline.pause().await {
                answered.append(&mut not_executed);
            }
            checks.extend(not_executed.into_iter().map(|(check, _)| check));
            self.tell(pass, answered);
        }
    }

    /// Tells those who asked, and the breaker in the place of those who have left.
    fn tell(&self, pass: Option<Pass<'_>>, answered: Vec<(Check, Answer)>) {
        let mut unheard = None;
        for (Check { key, answer: caller, .. }, answer) in answered {
            if let Err(answer) = caller.send(answer) {
                unheard = Some((key, answer));
            }
        }
        if let (Some(pass), Some((key, answer))) = (pass, unheard) {
            self.note(pass, (&key, false), answer.as_ref().err().map(|error| &**error));
        }
    }
}

/// Returns what a call's result means for each of so many checks.
fn answers(result: Result<ScriptReply, RunError>, number: usize) -> Vec<Answer> {
    let error = match result {
        Ok(reply) if number == 1 => return vec![Ok(reply)],
        Ok(ScriptReply::Array(replies)) if replies.len() == number => {
            let answer = |reply| match reply {
                ScriptReply::Text(words) => Err(Arc::new(of_one_key(&words))),
                reply => Ok(reply),
            };
            return replies.into_iter().map(answer).collect();
        }
        Ok(reply) => {
            let reply = quoted(&reply);
            let message = format!("the script replied with {reply} for {number} keys");
            Error::new(ErrorKind::Unexpected, message)
        }
        Err(error) => reason(error),
    };
    let error = Arc::new(error);
    (0..number).map(|_| Err(Arc::clone(&error))).collect()
}

/// Lets those run who are awake now. Tokio's own `yield_now` lets those awake first who wait for the
/// network, which is a system call.
async fn let_others_run() {
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

fn was_not_executed(answer: &Answer) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Unavailable)
}

/// A job's turn to send what waits. Dropped before, as when its runtime is shut down, it leaves
/// nothing behind, so that the next to ask starts another job.
struct Turn {
    plan: Arc<Plan>,
    tier: usize,
    runtime: runtime::Id,
    /// What waits from now on waits for another job.
    is_over: bool,
}

impl Turn {
    fn take(mut self) -> Vec<Check> {
        self.is_over = true;
        self.plan.queue(self.tier).take(self.runtime)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.plan.queue(self.tier).take(self.runtime));
        }
    }
}

impl Queue {
    /// Adds a check, and returns whether it is the first.
    fn push(&self, runtime: runtime::Id, check: Check) -> bool {
        let mut queues = self.lock();
        match queues.iter_mut().find(|(of, _)| *of == runtime) {
            Some((_, waiting)) => {
                waiting.push(check);
                false
            }
            None => {
                queues.push((runtime, vec![check]));
                true
            }
        }
    }

    fn take(&self, runtime: runtime::Id) -> Vec<Check> {
        let mut queues = self.lock();
        let index = queues.iter().position(|(of, _)| *of == runtime);
        index.map(|index| queues.swap_remove(index).1).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(runtime::Id, Vec<Check>)>> {
        // What it guards is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
