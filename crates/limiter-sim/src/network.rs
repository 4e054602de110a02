//! The network between the processes and the servers.

mod client;
mod state;

use std::sync::{Arc, Mutex};

use limiter_redis::{CallError, Fault as CallFault};
use tokio::sync::oneshot;

use self::state::{Outcome, State, Waiting};
pub(crate) use self::{client::SimClient, state::Trips};
use crate::{
    executor::Executor,
    fault::{Fault, Faults},
    random::Random,
    record::Record,
    servers::Servers,
    sync::lock,
    vocabulary::{Micros, Moment, ProcessId},
    wrong::Wrong,
};

/// The network, with the servers behind it. A clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    executor: Executor,
    servers: Mutex<Servers>,
    /// How many servers there are.
    nodes: usize,
    faults: Mutex<Faults>,
    record: Mutex<Record>,
    state: Mutex<State>,
    wrong: Option<Wrong>,
}

/// A call on its way to a node.
#[derive(Debug)]
struct Call {
    number: u64,
    process: ProcessId,
    to: (usize, bool),
    sent: Micros,
    words: Vec<Vec<u8>>,
}

impl Network {
    pub(crate) fn new(
        executor: &Executor,
        (mut random, trips): (Random, Trips),
        faults: Faults,
        record: Record,
        wrong: Option<Wrong>,
    ) -> Self {
        let servers = Servers::new(&mut random, wrong);
        Self(Arc::new(Parts {
            executor: executor.clone(),
            nodes: servers.len(),
            servers: Mutex::new(servers),
            faults: Mutex::new(faults),
            record: Mutex::new(record),
            state: Mutex::new(State::new(random, trips)),
            wrong,
        }))
    }

    /// Returns the present moment.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.0.executor.now();
        Moment { now, passed: lock(&self.0.servers).clock.passed(now) }
    }

    /// Returns how many servers there are.
    pub(crate) fn nodes(&self) -> usize {
        self.0.nodes
    }

    pub(crate) fn with_servers<T>(&self, work: impl FnOnce(&mut Servers) -> T) -> T {
        work(&mut lock(&self.0.servers))
    }

    pub(crate) fn with_faults<T>(&self, work: impl FnOnce(&mut Faults) -> T) -> T {
        work(&mut lock(&self.0.faults))
    }

    pub(crate) fn with_record<T>(&self, work: impl FnOnce(&mut Record, Moment) -> T) -> T {
        let moment = self.moment();
        work(&mut lock(&self.0.record), moment)
    }

    /// Returns whether a fault of a message happens now.
    pub(crate) fn happens(&self, fault: Fault) -> bool {
        self.with_faults(|faults| faults.happens(fault))
    }

    /// Lets the calls of a process to a node fail that are under way, and new ones until a time.
    pub(crate) fn cut(&self, process: ProcessId, node: usize, until: Micros) {
        let until = if self.0.wrong == Some(Wrong::NeverReconnects) { Micros::MAX } else { until };
        for waiting in lock(&self.0.state).cut((process, node), until) {
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

    /// Sends a call to a node, after `ASKING` or not, and returns its number and its reply.
    fn send(
        &self,
        process: ProcessId,
        to: (usize, bool),
        words: Vec<Vec<u8>>,
    ) -> Result<(u64, oneshot::Receiver<Outcome>), CallError> {
        let sent = self.0.executor.now();
        let (send, receive) = oneshot::channel();
        let mut state = lock(&self.0.state);
        if state.is_cut((process, to.0), sent) {
            return Err(CallError::new(CallFault::NotSent, "the process is not connected"));
        }
        state.sent += 1;
        let number = state.sent;
        state.under_way.insert(number, Waiting { process, node: to.0, reply: send });
        drop(state);
        if !self.is_lost((process, to.0), Fault::RequestLost) {
            let (network, call) = (self.clone(), Call { number, process, to, sent, words });
            self.0.executor.after(self.delay(to.0), move || network.arrive(call));
        }
        Ok((number, receive))
    }

    /// Lets the server execute a call, and sends the reply.
    fn arrive(&self, call: Call) {
        let Call { number, process, to, sent, ref words } = call;
        let now = self.0.executor.now();
        let executed = self.with_servers(|servers| servers.execute(to, process, words, now));
        self.with_record(|record, moment| {
            record.executed(moment, (process, number, sent), &executed);
        });
        if !self.is_lost((process, to.0), Fault::ReplyLost) {
            let (network, reply) = (self.clone(), executed.reply);
            self.0.executor.after(self.delay(to.0), move || {
                let waiting = lock(&network.0.state).under_way.remove(&number);
                drop(waiting.map(|waiting| waiting.reply.send(Ok(reply))));
            });
        } else if self.0.wrong == Some(Wrong::SendsAgain) {
            let network = self.clone();
            self.0.executor.after(1_000, move || network.arrive(call));
        }
    }

    fn is_lost(&self, between: (ProcessId, usize), fault: Fault) -> bool {
        let is_partitioned = lock(&self.0.state).is_partitioned(between, self.0.executor.now());
        is_partitioned || self.happens(fault)
    }

    /// Returns how long a message to or from a node takes.
    fn delay(&self, node: usize) -> Micros {
        let (is_late, is_held) = (self.happens(Fault::Delayed), self.happens(Fault::Held));
        lock(&self.0.state).delay(node, self.0.executor.now(), is_late, is_held)
    }

    /// Checks how many requests are in flight as soon as all tasks have run that are ready.
    pub(crate) fn checks_in_flight(&self) {
        let network = self.clone();
        self.0.executor.after(0, move || {
            network.with_record(Record::check_in_flight);
        });
    }
}
