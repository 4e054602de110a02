//! The servers: one, or the nodes of a cluster.

use limiter_double::Reply;
use limiter_redis::slot;

use crate::{
    random::Random,
    server::{Executed, Server, keys},
    vocabulary::{MAX_NODES, Micros, ProcessId},
    wrong::Wrong,
};

/// How many slots a cluster has.
const SLOTS: u64 = 16_384;

/// The servers, each with keys, a replica, a clock and faults of its own.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<Server>,
    /// The slot with which the first node's range begins.
    first_slot: u64,
}

impl Cluster {
    /// Returns one server, or in one of three seeds a cluster.
    pub(crate) fn new(random: &mut Random, wrong: Option<Wrong>) -> Self {
        let number = if random.below(3) == 0 { random.between(2, MAX_NODES as u64) } else { 1 };
        let nodes = (0..number).map(|_| Server::new(wrong)).collect();
        Self { nodes, first_slot: random.below(SLOTS) }
    }

    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node that has a key.
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        let place = (u64::from(slot(key)) + SLOTS - self.first_slot) % SLOTS;
        usize::try_from(place * self.nodes.len() as u64 / SLOTS).unwrap_or(0)
    }

    /// Returns the node to which a call is sent: that of its first key.
    pub(crate) fn node_of_call(&self, words: &[Vec<u8>]) -> usize {
        keys(words).first().map_or(0, |key| self.node_of(key))
    }

    /// Executes a call of a process on a node.
    pub(crate) fn execute(
        &mut self,
        node: usize,
        process: ProcessId,
        words: &[Vec<u8>],
        now: Micros,
    ) -> Executed {
        let is_cluster = self.nodes.len() > 1;
        let slots = keys(words).into_iter().map(|key| slot(&key));
        let spans_slots = || slots.collect::<std::collections::BTreeSet<_>>().len() > 1;
        match self.nodes.get_mut(node) {
            Some(server) if !(is_cluster && spans_slots()) => server.execute(process, words, now),
            _ => {
                let reply = "CROSSSLOT Keys in request don't hash to the same slot".to_owned();
                Executed::without_keys(Reply::Error(reply), "")
            }
        }
    }

    /// Returns the time that has passed by the clock of each node.
    pub(crate) fn passed(&self, now: Micros) -> [Micros; MAX_NODES] {
        let mut passed = [now; MAX_NODES];
        for (passed, server) in passed.iter_mut().zip(&self.nodes) {
            *passed = server.clock.passed(now);
        }
        passed
    }

    pub(crate) fn node_mut(&mut self, node: usize) -> Option<&mut Server> {
        self.nodes.get_mut(node)
    }

    pub(crate) fn for_each(&mut self, work: impl FnMut(&mut Server)) {
        self.nodes.iter_mut().for_each(work);
    }
}
