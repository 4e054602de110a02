//! What is on its way through the network, and what is wrong with it.

use std::collections::BTreeMap;

use limiter_double::Reply;
use limiter_redis::CallError;
use tokio::sync::oneshot;

use crate::{
    random::Random,
    vocabulary::{Micros, ProcessId},
};

/// How long messages take without faults, and the deadline that the limiters have for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trips {
    /// The shortest and the longest trip each way.
    pub(crate) shortest: Micros,
    pub(crate) longest: Micros,
    pub(crate) deadline: Micros,
}

impl Trips {
    /// Those to a server in the same building.
    pub(crate) const NEAR: Self = Self { shortest: 20, longest: 400, deadline: 50_000 };

    /// Those to a server in another country.
    pub(crate) const FAR: Self = Self { shortest: 5_000, longest: 40_000, deadline: 200_000 };
}

/// What a call ends with: the server's reply, or why there is none.
pub(super) type Outcome = Result<Reply, CallError>;

/// Calls under way, and what is wrong with the network.
#[derive(Debug)]
pub(super) struct State {
    random: Random,
    trips: Trips,
    /// How many calls were sent.
    pub(super) sent: u64,
    sleeps: u64,
    /// The calls without a reply.
    pub(super) under_way: BTreeMap<u64, Waiting>,
    /// Until when processes have no connection to a node, and until when nothing passes.
    cut_until: BTreeMap<(ProcessId, usize), Micros>,
    pub(super) partitioned_until: BTreeMap<(ProcessId, usize), Micros>,
    /// Until when nodes are slow, and by how much.
    pub(super) slow: BTreeMap<usize, (Micros, Micros)>,
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) process: ProcessId,
    pub(super) node: usize,
    pub(super) reply: oneshot::Sender<Outcome>,
}

impl State {
    pub(super) const fn new(random: Random, trips: Trips) -> Self {
        Self {
            random,
            trips,
            sent: 0,
            sleeps: 0,
            under_way: BTreeMap::new(),
            cut_until: BTreeMap::new(),
            partitioned_until: BTreeMap::new(),
            slow: BTreeMap::new(),
        }
    }

    /// Cuts a process off a node, and returns its calls under way.
    pub(super) fn cut(&mut self, between: (ProcessId, usize), until: Micros) -> Vec<Waiting> {
        self.cut_until.insert(between, until);
        let is_cut = |waiting: &Waiting| (waiting.process, waiting.node) == between;
        let cut = self.under_way.iter().filter(|(_, waiting)| is_cut(waiting));
        let cut: Vec<u64> = cut.map(|(number, _)| *number).collect();
        cut.into_iter().filter_map(|number| self.under_way.remove(&number)).collect()
    }

    pub(super) fn is_cut(&self, between: (ProcessId, usize), now: Micros) -> bool {
        self.cut_until.get(&between).is_some_and(|until| now < *until)
    }

    pub(super) fn is_partitioned(&self, between: (ProcessId, usize), now: Micros) -> bool {
        self.partitioned_until.get(&between).is_some_and(|until| now < *until)
    }

    pub(super) fn heal(&mut self) {
        self.cut_until.clear();
        self.partitioned_until.clear();
        self.slow.clear();
    }

    /// Counts a sleep, and returns whether it is the fiftieth.
    pub(super) const fn is_fiftieth_sleep(&mut self) -> bool {
        self.sleeps += 1;
        self.sleeps.is_multiple_of(50)
    }

    /// Returns how long a message to or from a node takes.
    pub(super) fn delay(
        &mut self,
        node: usize,
        now: Micros,
        is_late: bool,
        is_held: bool,
    ) -> Micros {
        let (random, trips) = (&mut self.random, self.trips);
        let (until, by) = self.slow.get(&node).copied().unwrap_or((0, 0));
        let slow = if now < until { by } else { 0 };
        let late = if is_late { random.below(3 * trips.deadline) } else { 0 };
        let held = if is_held { random.between(200_000, 2_500_000) } else { 0 };
        random.between(trips.shortest, trips.longest) + slow + late + held
    }
}
