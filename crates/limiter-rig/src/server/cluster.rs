//! A cluster of one's own, whose slots can be moved while they are in use.

use super::{Server, wait_until};

/// How many slots a cluster has.
const SLOTS: usize = 16_384;
pub(super) const PRIMARIES: usize = 3;

/// Three primaries that share the slots evenly, and a replica of each if asked for.
///
/// ```no_run
/// use limiter_rig::server::Cluster;
///
/// let cluster = Cluster::start();
/// let slot = cluster.slot_of("key");
/// cluster.begin_move(slot, 2).finish();
/// assert_eq!(cluster.owner(slot), 2);
/// ```
#[derive(Debug)]
pub struct Cluster {
    /// The primaries, then the replicas in the same order.
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three primaries, and returns once each says that all is well.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::of(PRIMARIES, Server::start_with)
    }

    /// Starts three primaries and a replica of each, and returns once these have caught up.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_with_replicas() -> Self {
        Self::of(2 * PRIMARIES, Server::start_with)
    }

    /// The address in the form that clients take, of the first node alone.
    #[must_use]
    pub fn url(&self) -> String {
        let first = self.node(0);
        format!("redis{}-cluster://127.0.0.1:{}", first.encrypted(), first.public_port())
    }

    /// A node: 0 to 2 are the primaries to begin with, 3 to 5 their replicas.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    #[must_use]
    pub fn node(&self, index: usize) -> &Server {
        self.nodes.get(index).expect("there are three nodes, or six")
    }

    /// A node, to kill it or to start it again.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn node_mut(&mut self, index: usize) -> &mut Server {
        self.nodes.get_mut(index).expect("there are three nodes, or six")
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// When the first node does not answer.
    #[must_use]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.ask(0, &["CLUSTER", "KEYSLOT", key]);
        slot.trim_start_matches(':').parse().expect("a slot is a number")
    }

    /// Which primary serves a slot, by the slots that it says are its own.
    ///
    /// # Panics
    ///
    /// When none does.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let serves = |index: &usize| {
            let nodes = self.ask(*index, &["CLUSTER", "NODES"]);
            let own = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
            own.split_whitespace().skip(8).any(|range| contains(range, slot))
        };
        (0..self.nodes.len()).find(serves).expect("a slot is served")
    }

    /// Begins to move a slot to another primary: both serve the slot, the old one what it still
    /// has, and the new one all else to those that ask.
    ///
    /// # Panics
    ///
    /// When a node refuses.
    #[must_use]
    pub fn begin_move(&self, slot: u16, to: usize) -> Move<'_> {
        let from = self.owner(slot);
        let number = slot.to_string();
        self.ask(to, &["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.id(from)]);
        self.ask(from, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.id(to)]);
        Move { cluster: self, slot: number, from, to }
    }

    /// Starts so many nodes, each by `start` with the arguments that make it one.
    #[track_caller]
    pub(super) fn of(count: usize, start: impl Fn(&[&str]) -> Server) -> Self {
        // A dead node is found after half a second, and a replica takes its place; where there is
        // none, the other nodes go on.
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "500",
            "--cluster-require-full-coverage",
            "no",
        ];
        let nodes = (0..count).map(|_| start(&options)).collect();
        let cluster = Self { nodes };
        cluster.share_slots();
        for index in 1..count {
            let port = cluster.node(index).public_port().to_string();
            cluster.ask(0, &["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let knows_all = format!("cluster_known_nodes:{count}\r\n");
        cluster.wait_for_all("the nodes know each other", &["CLUSTER", "INFO"], &knows_all);
        for index in PRIMARIES..count {
            let primary = cluster.id(index - PRIMARIES);
            cluster.ask(index, &["CLUSTER", "REPLICATE", &primary]);
        }
        cluster.wait_for_all("all is well", &["CLUSTER", "INFO"], "cluster_state:ok\r\n");
        for index in PRIMARIES..count {
            wait_until("a replica has caught up", || {
                cluster.ask(index, &["INFO", "replication"]).contains("master_link_status:up")
            });
        }
        cluster.wait_until_told();
        cluster
    }

    fn share_slots(&self) {
        for index in 0..PRIMARIES {
            let slots = (0..SLOTS).filter(|slot| slot * PRIMARIES / SLOTS == index);
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
            self.ask(index, &words.collect::<Vec<_>>());
            // Without it the nodes have to find out whose word counts.
            let epoch = (index + 1).to_string();
            self.ask(index, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
    }

    #[track_caller]
    fn wait_for_all(&self, what: &str, words: &[&str], contained: &str) {
        for index in 0..self.nodes.len() {
            wait_until(what, || self.ask(index, words).contains(contained));
        }
    }

    /// Waits until every node tells clients of every other.
    #[track_caller]
    fn wait_until_told(&self) {
        for index in 0..self.nodes.len() {
            wait_until("all nodes are told of", || {
                let slots = self.ask(index, &["CLUSTER", "SLOTS"]);
                self.nodes.iter().all(|node| slots.contains(&format!(":{}\r\n", node.port())))
            });
        }
    }

    /// Waits until all nodes are at the same epoch, each by its own. Between moves too soon after
    /// one another, two nodes can take the same one; then the old node may claim the slot back, and
    /// both serve it, or none.
    fn wait_until_agreed(&self) {
        wait_until("the nodes agree", || {
            let nodes = (0..self.nodes.len()).map(|index| self.ask(index, &["CLUSTER", "NODES"]));
            let mut views = nodes.map(|nodes| epochs_and_slots(&nodes));
            let first = views.next();
            views.all(|view| Some(view) == first)
        });
    }

    fn id(&self, index: usize) -> String {
        let reply = self.ask(index, &["CLUSTER", "MYID"]);
        reply.lines().nth(1).unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn ask(&self, index: usize, words: &[&str]) -> String {
        match self.node(index).command(words) {
            Ok(reply) => reply,
            Err(error) => {
                let begin: Vec<_> = words.iter().take(4).collect();
                panic!("node {index} to {begin:?}: {error}")
            }
        }
    }
}

/// A slot that is being moved. Dropped, it stays halfway.
#[derive(Debug)]
pub struct Move<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl Move<'_> {
    /// Moves the keys that the old node still has, one by one.
    ///
    /// # Panics
    ///
    /// When a node refuses.
    pub fn move_keys(&self) {
        loop {
            let words = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"];
            let keys = self.cluster.ask(self.from, &words);
            // `*2`, then the length of a key and the key, twice.
            let keys: Vec<&str> = keys.lines().skip(2).step_by(2).collect();
            if keys.is_empty() {
                return;
            }
            for key in keys {
                self.move_key(key);
            }
        }
    }

    /// Moves one key.
    ///
    /// # Panics
    ///
    /// When the old node does not have it, or refuses.
    pub fn move_key(&self, key: &str) {
        let port = self.cluster.node(self.to).public_port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        assert_eq!(self.cluster.ask(self.from, &words), "+OK", "{key}");
    }

    /// Moves what is left, and has the new node serve the slot alone.
    ///
    /// # Panics
    ///
    /// When a node refuses.
    pub fn finish(self) {
        self.move_keys();
        let Self { cluster, slot, from, to } = self;
        let id = cluster.id(to);
        // The new one first: at no moment does none serve the slot.
        for index in [to, from] {
            cluster.ask(index, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
        cluster.wait_until_agreed();
    }
}

/// Returns what `CLUSTER NODES` tells of each node: its name, its epoch, and the slots that it
/// serves.
fn epochs_and_slots(nodes: &str) -> Vec<String> {
    let of_node = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_moves = |word: &&&str| !word.starts_with('[');
        let kept = words.iter().take(1).chain(words.iter().skip(6).take(1));
        let kept = kept.chain(words.iter().skip(8).filter(of_moves));
        kept.copied().collect::<Vec<_>>().join(" ")
    };
    let mut views: Vec<String> = nodes.lines().skip(1).map(of_node).collect();
    views.sort();
    views
}

fn contains(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        _ => false,
    }
}
