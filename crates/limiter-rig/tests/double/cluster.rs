//! A slot that moves: which node replies what, before, while it moves, and after.

use std::collections::BTreeMap;

use limiter_double::{Cluster as Double, Reply, Version, slot};
use limiter_rig::server::{Cluster, wait_until};

use crate::{
    pair::{now, shown, version},
    wire::{Connection, Words, words},
};

const NODES: usize = 3;

/// Connections to a real cluster, and the double of it at the same addresses.
struct Pair {
    connections: Vec<Connection>,
    double: Double,
    version: Version,
    /// The double's names of nodes, by the real ones.
    names: BTreeMap<String, String>,
}

impl Pair {
    fn of(cluster: &Cluster) -> Self {
        let ports: Vec<_> = (0..NODES).map(|node| cluster.node(node).port()).collect();
        let mut connections: Vec<_> = ports.iter().map(|port| Connection::open(*port)).collect();
        let version = version(&mut connections[0]);
        let addresses: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
        let double = Double::new(version, &addresses);
        let mut names = BTreeMap::new();
        for (node, connection) in connections.iter_mut().enumerate() {
            let Reply::Bulk(name) = connection.call(&["CLUSTER", "MYID"]) else {
                panic!("no name")
            };
            names.insert(String::from_utf8(name).unwrap(), format!("{node:040x}"));
        }
        Self { connections, double, version, names }
    }

    /// Sends commands to a node, one after another, and checks that the replies are the same as the double's.
    #[track_caller]
    fn same(&mut self, node: usize, commands: &[Words]) {
        for command in commands {
            let real = self.connections[node].call(command);
            let double = self.double.nodes()[node].execute(command, now());
            assert_eq!(double, real, "{:?}: node {node}: {:?}", self.version, shown(command));
        }
    }

    /// Checks what all nodes reply to commands with keys of a slot, to those who ask as well.
    #[track_caller]
    fn check(&mut self, keys: &Keys) {
        for node in 0..NODES {
            let commands = keys.commands();
            self.same(node, &commands);
            for command in commands {
                // The second one is not behind an `ASKING`.
                self.same(node, &[words("ASKING"), command.clone(), command]);
            }
            let get = words(&format!("GET {}", keys.moved));
            self.same(node, &[words("ASKING"), words("PING"), get.clone()]);
            self.same(node, &[words("ASKING"), words("ASKING"), get]);
        }
        self.check_maps();
    }

    /// Checks that all nodes know the same slots.
    #[track_caller]
    fn check_maps(&mut self) {
        for node in 0..NODES {
            // Nodes hear of each other's slots in a while.
            wait_until("nodes have the same map", || match self.compare_maps(node) {
                Ok(()) => true,
                Err(difference) => {
                    println!("{:?}: node {node}: {difference}", self.version);
                    false
                }
            });
        }
    }

    fn compare_maps(&mut self, node: usize) -> Result<(), String> {
        for name in ["SLOTS", "NODES"] {
            let of_reply = if name == "SLOTS" { slots } else { nodes };
            let command = ["CLUSTER", name];
            let mut real = of_reply(&self.connections[node].call(&command));
            for (known, own) in &self.names {
                real = real.replace(known, own);
            }
            let double = of_reply(&self.double.nodes()[node].execute(&command, now()));
            if sorted(&real) != sorted(&double) {
                return Err(format!("{double}\n{real}"));
            }
        }
        Ok(())
    }
}

/// Returns the reply to `CLUSTER SLOTS` as lines.
fn slots(reply: &Reply) -> String {
    let Reply::Array(ranges) = reply else { panic!("{reply:?}") };
    ranges.iter().map(|range| format!("{}\n", shown_reply(range))).collect()
}

fn shown_reply(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Array(parts) => format!("{:?}", parts.iter().map(shown_reply).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}

/// Returns what clients read of the reply to `CLUSTER NODES`: names, addresses, flags and slots.
fn nodes(reply: &Reply) -> String {
    let of_line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let address = words[1].split(['@', ',']).next().unwrap();
        let mut slots = words[8..].to_vec();
        slots.sort_unstable();
        format!("{} {address} {} {} {}\n", words[0], words[2], words[7], slots.join(" "))
    };
    let text = shown_reply(reply);
    text.lines().map(of_line).collect()
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

/// Keys of one slot, and one of another.
struct Keys {
    /// There at first, and moved before the others.
    moved: String,
    /// There at first.
    kept: String,
    /// Never there.
    none: String,
    other: String,
}

impl Keys {
    fn commands(&self) -> Vec<Words> {
        let Self { moved, kept, none, other } = self;
        let none_either = &format!("{none}2");
        let all = [
            &[moved][..],
            &[kept],
            &[none],
            &[other],
            &[moved, kept],
            &[moved, none],
            &[kept, none],
        ];
        let more = [&[none, none_either][..], &[moved, other], &[none, kept, moved]];
        let mut commands = Vec::new();
        for keys in all.into_iter().chain(more) {
            let keys: Vec<_> = keys.iter().map(|key| key.as_str()).collect();
            commands.push([&["EXISTS"], &keys[..]].concat());
            let count: &str = ["0", "1", "2", "3"][keys.len()];
            for script in [READS, WRITES] {
                // Also with a key that is not among those of the script.
                for argument in [keys[0], other] {
                    commands.push([&["EVAL", script, count], &keys[..], &[argument]].concat());
                }
            }
            commands.push([&["EVALSHA", UNKNOWN, count], &keys[..]].concat());
        }
        commands.push(vec!["EVAL", READS, "0", moved]);
        commands.push(vec!["GET", moved]);
        commands.push(vec!["PEXPIRE", kept, "100000000"]);
        commands.push(vec!["PING"]);
        let bytes =
            |command: Vec<&str>| command.iter().map(|word| word.as_bytes().to_vec()).collect();
        commands.into_iter().map(bytes).collect()
    }
}

const READS: &str = "return { KEYS[1] or 0, redis.call('GET', ARGV[1]) }";
const WRITES: &str = "return { redis.pcall('PEXPIRE', ARGV[1], 100000000), KEYS[1] and redis.pcall('GET', KEYS[1]) or 0 }";
const UNKNOWN: &str = "ffffffffffffffffffffffffffffffffffffffff";

#[test]
fn a_slot_moves() {
    let cluster = Cluster::start();
    let mut pair = Pair::of(&cluster);
    let slot_of = slot(b"{a}");
    let keys = Keys {
        moved: "{a}moved".to_owned(),
        kept: "{a}kept".to_owned(),
        none: "{a}none".to_owned(),
        other: "other".to_owned(),
    };
    let from = pair.double.owner(slot_of).unwrap();
    assert_eq!(from, cluster.owner(slot_of));
    let to = (from + 1) % NODES;
    for key in [&keys.moved, &keys.kept] {
        pair.same(from, &[words(&format!("SET {key} {key}"))]);
    }
    pair.check(&keys);

    let moves = cluster.begin_move(slot_of, to);
    pair.double.begin_move(slot_of, to);
    pair.check(&keys);

    let port = cluster.node(to).port().to_string();
    let migrate = ["MIGRATE", "127.0.0.1", &port, &keys.moved, "0", "5000"];
    cluster.node(from).command(&migrate).unwrap();
    pair.double.move_key(keys.moved.as_bytes());
    pair.check(&keys);

    moves.move_keys();
    pair.double.move_key(keys.kept.as_bytes());
    pair.check(&keys);

    moves.finish();
    pair.double.end_move(slot_of);
    pair.check(&keys);
}
