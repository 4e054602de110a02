//! The network between the processes and the servers.

mod client;
mod expiries;
mod in_flight;
mod reply;
mod state;

use std::sync::{Arc, Mutex};

use limiter_double::Reply;
use limiter_redis::{CallError, Fault as CallFault};
use tokio::sync::oneshot;

pub(crate) use self::client::SimClient;
use self::{
    expiries::shortened,
    reply::{Outcome, outcome},
    state::{State, Waiting},
};
use crate::{
    cluster::Cluster,
    executor::Executor,
    fault::{Fault, Faults},
    random::Random,
    records::Records,
    server::Server,
    sync::lock,
    trips::Trips,
    vocabulary::{Micros, Moment, ProcessId, Subject},
    wrong::Wrong,
};

/// The network, with the servers behind it. A clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    executor: Executor,
    cluster: Mutex<Cluster>,
    /// How many nodes there are.
    nodes: usize,
    faults: Mutex<Faults>,
    records: Mutex<Records>,
    state: Mutex<State>,
    wrong: Option<Wrong>,
}

/// A call on its way.
#[derive(Debug)]
struct Call {
    number: u64,
    process: ProcessId,
    node: usize,
    sent: Micros,
    words: Vec<Vec<u8>>,
}

impl Network {
    pub(crate) fn new(
        executor: &Executor,
        (mut random, trips): (Random, Trips),
        faults: Faults,
        records: Records,
        wrong: Option<Wrong>,
    ) -> Self {
        let cluster = Cluster::new(&mut random, wrong);
        Self(Arc::new(Parts {
            executor: executor.clone(),
            nodes: cluster.len(),
            cluster: Mutex::new(cluster),
            faults: Mutex::new(faults),
            records: Mutex::new(records),
            state: Mutex::new(State::new(random, trips)),
            wrong,
        }))
    }

    /// Returns the present moment.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.0.executor.now();
        Moment { now, by_nodes: lock(&self.0.cluster).passed(now) }
    }

    /// Returns how many servers there are.
    pub(crate) fn nodes(&self) -> usize {
        self.0.nodes
    }

    /// Returns the node that has a key.
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        lock(&self.0.cluster).node_of(key)
    }

    pub(crate) fn with_server(&self, node: usize, work: impl FnOnce(&mut Server)) {
        lock(&self.0.cluster).node_mut(node).map(work);
    }

    pub(crate) fn with_servers(&self, work: impl FnMut(&mut Server)) {
        lock(&self.0.cluster).for_each(work);
    }

    pub(crate) fn with_faults<T>(&self, work: impl FnOnce(&mut Faults) -> T) -> T {
        work(&mut lock(&self.0.faults))
    }

    pub(crate) fn with_records<T>(&self, work: impl FnOnce(&mut Records, Moment) -> T) -> T {
        let moment = self.moment();
        work(&mut lock(&self.0.records), moment)
    }

    /// Lets the calls of a process to a node fail that are under way, and new ones until a time.
    pub(crate) fn cut(&self, process: ProcessId, node: usize, until: Micros) {
        let until = if self.0.wrong == Some(Wrong::NeverReconnects) { Micros::MAX } else { until };
        let cut = lock(&self.0.state).cut((process, node), until);
        for waiting in cut {
            let error = CallError::new(CallFault::NoReply, "the connection was lost");
            drop(waiting.reply.send(Err(error)));
        }
    }

    /// Lets nothing pass between a process and a node until a time.
    pub(crate) fn partition(&self, process: ProcessId, node: usize, until: Micros) {
        lock(&self.0.state).partitioned_until.insert((process, node), until);
    }

    /// Lets each call to a node take so much longer until a time.
    pub(crate) fn slow_down(&self, node: usize, by: Micros, until: Micros) {
        lock(&self.0.state).slow.insert(node, (until, by));
    }

    /// Ends cuts, partitions and slowness.
    pub(crate) fn heal(&self) {
        if self.0.wrong != Some(Wrong::NeverReconnects) {
            lock(&self.0.state).heal();
        }
    }

    /// Returns whether a sleep never ends, because the world is wrong.
    fn forgets_sleep(&self) -> bool {
        self.0.wrong == Some(Wrong::ForgetsSleeps) && lock(&self.0.state).is_fiftieth_sleep()
    }

    /// Sends a call, and returns its number and its reply.
    fn send(
        &self,
        process: ProcessId,
        words: Vec<Vec<u8>>,
    ) -> Result<(u64, oneshot::Receiver<Outcome>), CallError> {
        let sent = self.0.executor.now();
        let node = lock(&self.0.cluster).node_of_call(&words);
        let (send, receive) = oneshot::channel();
        let mut state = lock(&self.0.state);
        if state.is_cut((process, node), sent) {
            return Err(CallError::new(CallFault::NotSent, "the process is not connected"));
        }
        state.sent += 1;
        let number = state.sent;
        state.under_way.insert(number, Waiting { process, node, reply: send });
        drop(state);
        self.with_records(|records, moment| records.sent(moment, process, number, &words));
        let call = Call { number, process, node, sent, words };
        if !self.is_lost((process, node), Fault::RequestLost) {
            let network = self.clone();
            self.0.executor.after(self.delay(node), move || network.arrive(call));
        }
        Ok((number, receive))
    }

    /// Lets the server execute a call, and sends the reply.
    fn arrive(&self, call: Call) {
        let now = self.0.executor.now();
        // In a wrong world, the way of the reply is known before.
        let way =
            (self.0.wrong == Some(Wrong::DeadlinesFromReplies)).then(|| self.delay(call.node));
        let shortened = way.map(|way| shortened(&call.words, way));
        let words = shortened.as_ref().unwrap_or(&call.words);
        let executed = lock(&self.0.cluster).execute(call.node, call.process, words, now);
        self.notes_in_flight(&call, &executed);
        if matches!(&executed.reply, Reply::Error(text) if text.starts_with("CROSSSLOT")) {
            self.with_records(|records, moment| {
                records.violated(moment, Subject::ALL, "a call has keys of several slots");
            });
        }
        self.with_records(|records, moment| {
            let what = (call.process, call.number, call.sent);
            records.executed(moment, what, executed.script, &executed.keys);
        });
        let (network, number) = (self.clone(), call.number);
        if !self.is_lost((call.process, call.node), Fault::ReplyLost) {
            let delay = way.unwrap_or_else(|| self.delay(call.node));
            let outcome = outcome(executed.reply);
            self.0.executor.after(delay, move || network.deliver(number, outcome));
        } else if self.0.wrong == Some(Wrong::SendsAgain) {
            self.0.executor.after(1_000, move || network.arrive(call));
        }
    }

    fn deliver(&self, number: u64, outcome: Outcome) {
        let waiting = lock(&self.0.state).under_way.remove(&number);
        if let Some(Waiting { reply, .. }) = waiting {
            drop(reply.send(outcome));
        }
    }

    /// Forgets a call for which nobody waits.
    fn forget(&self, number: u64) {
        lock(&self.0.state).under_way.remove(&number);
    }

    fn is_lost(&self, between: (ProcessId, usize), fault: Fault) -> bool {
        let is_partitioned = lock(&self.0.state).is_partitioned(between, self.0.executor.now());
        is_partitioned || self.happens(fault)
    }

    /// Returns whether a fault of a message happens now.
    pub(crate) fn happens(&self, fault: Fault) -> bool {
        self.with_faults(|faults| faults.happens(fault))
    }

    /// Returns how long a message to or from a node takes.
    fn delay(&self, node: usize) -> Micros {
        let (is_late, is_held) = (self.happens(Fault::Delayed), self.happens(Fault::Held));
        lock(&self.0.state).delay(node, self.0.executor.now(), is_late, is_held)
    }
}
