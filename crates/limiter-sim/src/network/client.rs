//! The client of a process: its calls, tasks and sleeps.

use std::{
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::future::{Either, select};
use limiter_redis::{CallError, Fault, ScriptCall, ScriptClient, ScriptReply};

use super::Network;
use crate::{clock::ProcessClock, executor::Executor, vocabulary::ProcessId};

/// The client library of a process.
#[derive(Clone, Debug)]
pub(crate) struct SimClient {
    network: Network,
    executor: Executor,
    process: ProcessId,
    clock: ProcessClock,
}

impl SimClient {
    pub(crate) fn new(network: &Network, process: ProcessId, clock: &ProcessClock) -> Self {
        let (network, executor) = (network.clone(), network.0.executor.clone());
        Self { network, executor, process, clock: clock.clone() }
    }
}

impl ScriptClient for SimClient {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let words = call.args().iter().map(|word| AsRef::<[u8]>::as_ref(word).to_vec()).collect();
        let (number, reply) = self.network.send(self.process, words)?;
        let sleep = pin!(self.clock.sleep(call.reply_within(within)));
        let outcome = select(reply, sleep).await;
        self.network.forget(number);
        match outcome {
            Either::Left((Ok(outcome), _)) => outcome,
            Either::Left((Err(_), _)) | Either::Right(_) => {
                Err(CallError::new(Fault::NoReply, "no reply in time"))
            }
        }
    }

    fn supports_batches(&self) -> bool {
        self.network.nodes() == 1
    }

    fn server_of(&self, key: &[u8]) -> Option<(usize, Arc<str>)> {
        let node = self.network.node_of(key);
        (self.network.nodes() > 1).then(|| (node, format!("node {node}").into()))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(self.process, task);
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let (sleep, ends) = (self.clock.sleep(time), !self.network.forgets_sleep());
        async move {
            sleep.await;
            if !ends {
                pending::<()>().await;
            }
        }
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.executor.spawn(self.process, async move { work() });
    }
}
