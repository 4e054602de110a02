//! The client of a process: its calls, tasks and sleeps. In a cluster, its calls follow the slots.

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{Either, select};
use limiter_core::Clock;
use limiter_double::{Reply, slot};
use limiter_redis::{CallError, Fault, ScriptCall, ScriptClient, ScriptReply};

use super::{Network, state::Outcome};
use crate::{clock::ProcessClock, executor::Executor, sync::lock, vocabulary::ProcessId};

/// How often a call follows another node's address at most.
const REDIRECTS: usize = 3;

/// The client library of a process.
#[derive(Clone, Debug)]
pub(crate) struct SimClient {
    network: Network,
    executor: Executor,
    process: ProcessId,
    clock: ProcessClock,
    /// The nodes of slots, as it knows them.
    owners: Arc<Mutex<BTreeMap<u16, usize>>>,
}

impl SimClient {
    pub(crate) fn new(network: &Network, process: ProcessId, clock: &ProcessClock) -> Self {
        let (network, executor) = (network.clone(), network.0.executor.clone());
        Self { network, executor, process, clock: clock.clone(), owners: Arc::default() }
    }

    /// Returns the node that had a key when that was known last.
    fn node_of(&self, key: &[u8]) -> usize {
        let learn = || self.network.with_servers(|servers| servers.node_of(key));
        *lock(&self.owners).entry(slot(key)).or_insert_with(learn)
    }

    /// Sends a call within a time, also to the nodes that others name in their place.
    async fn call(&self, words: Vec<Vec<u8>>, within: Duration) -> Outcome {
        let until = self.clock.now().saturating_add(within);
        let key = words.get(3).cloned().unwrap_or_default();
        let mut to = (self.node_of(&key), false);
        for _ in 0..REDIRECTS {
            let (number, reply) = self.network.send(self.process, to, words.clone())?;
            let _forgotten = Forgotten(&self.network, number);
            let lost = |_| CallError::new(Fault::NoReply, "the call was dropped");
            let reply = reply.await.map_err(lost)??;
            match redirect(&reply) {
                Some((node, false)) => {
                    lock(&self.owners).insert(slot(&key), node);
                    to = (node, false);
                }
                Some(asking) => to = asking,
                None => return Ok(reply),
            }
            if self.clock.now() >= until {
                break;
            }
        }
        Err(CallError::new(Fault::Redirected, "another node has the key"))
    }
}

/// A call that is forgotten when nobody waits for its reply.
struct Forgotten<'a>(&'a Network, u64);

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).under_way.remove(&self.1);
    }
}

/// Returns the node that a reply names, and whether the call has to follow `ASKING`.
fn redirect(reply: &Reply) -> Option<(usize, bool)> {
    let Reply::Error(text) = reply else { return None };
    let (word, rest) = text.split_once(' ')?;
    let is_asking = match word {
        "ASK" => true,
        "MOVED" => false,
        _ => return None,
    };
    Some((rest.rsplit_once(':')?.1.parse().ok()?, is_asking))
}

/// Returns what a reply means to a client.
fn outcome(reply: Reply) -> Result<ScriptReply, CallError> {
    Ok(match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8_lossy(&text).into_owned()),
        Reply::Nil => ScriptReply::Nil,
        Reply::Array(replies) => {
            ScriptReply::Array(replies.into_iter().map(outcome).collect::<Result<_, _>>()?)
        }
        Reply::Error(text) => return Err(CallError::from_error_reply("the server", &text)),
    })
}

impl ScriptClient for SimClient {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let words = call.args().iter().map(|word| AsRef::<[u8]>::as_ref(word).to_vec()).collect();
        let (reply, sleep) =
            (pin!(self.call(words, within)), self.clock.sleep(call.reply_within(within)));
        match select(reply, pin!(sleep)).await {
            Either::Left((reply, _)) => outcome(reply?),
            Either::Right(_) => Err(CallError::new(Fault::NoReply, "no reply in time")),
        }
    }

    fn supports_batches(&self) -> bool {
        self.network.nodes() == 1
    }

    fn server_of(&self, key: &[u8]) -> Option<(usize, Arc<str>)> {
        let node = self.node_of(key);
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
