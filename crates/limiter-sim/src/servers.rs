//! The servers: one, or the nodes of a cluster. Each has a replica that lags, and troubles of its own; all have one clock.

mod clock;

use std::{collections::BTreeMap, mem};

use limiter_double::{Cluster, Refusal, Reply, Server as Redis, Version, slot};
use limiter_redis::scripts;

use self::clock::ServerClock;
use crate::{
    random::Random,
    vocabulary::{Micros, ProcessId},
    wrong::Wrong,
};

/// The addresses of the most nodes of a cluster.
const ADDRESSES: [&str; 3] = ["node:0", "node:1", "node:2"];

#[derive(Debug)]
pub(crate) struct Servers {
    redis: Nodes,
    states: Vec<State>,
    pub(crate) clock: ServerClock,
    /// The names of the scripts, by their digests.
    names: BTreeMap<String, &'static str>,
    wrong: Option<Wrong>,
}

/// A server takes calls about several slots, and the nodes of a cluster don't.
#[derive(Debug)]
enum Nodes {
    One(Box<Redis>),
    Many(Cluster),
}

/// What is simulated of a server, beside its keys.
#[derive(Debug)]
struct State {
    /// The server as it was a while ago.
    replica: Redis,
    /// A stale server, the process that it answers, and until when.
    stale: Option<(Redis, ProcessId, Micros)>,
    /// Why it does not execute all commands, and until when.
    trouble: Option<(Trouble, Micros)>,
}

/// Why a server does not execute all commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// Its memory is full.
    Full,
    Refuses(Refusal),
    /// Callers may not call a command.
    Denies(&'static str),
}

impl Trouble {
    /// Those that a server replies for all commands, or for those that write.
    pub(crate) const REFUSALS: [Refusal; 6] = [
        Refusal::Loading,
        Refusal::Busy,
        Refusal::MasterDown,
        Refusal::ReadOnly,
        Refusal::Misconf,
        Refusal::NoReplicas,
    ];

    /// Commands that scripts call.
    pub(crate) const COMMANDS: [&str; 10] =
        ["hget", "hset", "pexpire", "pttl", "zadd", "zcard", "rpush", "lset", "evalsha", "time"];
}

/// What a server did with a call.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) reply: Reply,
    pub(crate) script: &'static str,
    /// The keys, and whether the value of each was changed.
    pub(crate) keys: Vec<(Vec<u8>, bool)>,
}

impl Servers {
    /// Returns one server, or in one of three seeds a cluster.
    pub(crate) fn new(random: &mut Random, wrong: Option<Wrong>) -> Self {
        let number =
            if random.below(3) == 0 { random.between(2, ADDRESSES.len() as u64) } else { 1 };
        let redis = match number {
            1 => Nodes::One(Box::default()),
            _ => Nodes::Many(Cluster::new(
                Version::default(),
                ADDRESSES.get(..usize::try_from(number).unwrap_or(2)).unwrap_or(&ADDRESSES),
            )),
        };
        let names = scripts::all().map(|(name, text)| (scripts::digest(text), name)).collect();
        let clock = ServerClock::new();
        let mut servers = Self { redis, states: Vec::new(), clock, names, wrong };
        for redis in servers.nodes().to_vec() {
            servers.states.push(State { replica: redis, stale: None, trouble: None });
        }
        servers
    }

    fn nodes(&mut self) -> &mut [Redis] {
        match &mut self.redis {
            Nodes::One(redis) => std::slice::from_mut(redis),
            Nodes::Many(cluster) => cluster.nodes(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns the node that serves a key.
    pub(crate) fn node_of(&self, key: &[u8]) -> usize {
        match &self.redis {
            Nodes::One(_) => 0,
            Nodes::Many(cluster) => cluster.owner(slot(key)).unwrap_or(0),
        }
    }

    fn pair(&mut self, node: usize) -> Option<(&mut Redis, &mut State)> {
        let redis = match &mut self.redis {
            Nodes::One(redis) => &mut **redis,
            Nodes::Many(cluster) => cluster.nodes().get_mut(node)?,
        };
        Some((redis, self.states.get_mut(node)?))
    }

    fn at(&mut self, node: usize, change: impl FnOnce(&mut Redis, &mut State)) {
        if let Some((redis, state)) = self.pair(node) {
            change(redis, state);
        }
    }

    /// Executes a call of a process, which follows `ASKING` or not, unless the server refuses to.
    pub(crate) fn execute(
        &mut self,
        (node, is_asking): (usize, bool),
        process: ProcessId,
        words: &[Vec<u8>],
        now: Micros,
    ) -> Executed {
        let (script, wrong, unix) = (self.name(words), self.wrong, self.clock.unix_micros(now));
        let nothing = || Executed { reply: Reply::Nil, script, keys: Vec::new() };
        let Some((redis, state)) = self.pair(node) else { return nothing() };
        let is_stale = |it: &(Redis, ProcessId, Micros)| it.1 == process && now < it.2;
        let mut stale = state.stale.take_if(|stale| is_stale(stale));
        // What it changes is lost when the stale server is.
        if let Some((stale, ..)) = &mut stale {
            mem::swap(redis, stale);
        }
        let trouble = state.trouble.filter(|(_, until)| now < *until).map(|(trouble, _)| trouble);
        // So that a key that has expired since the last command is absent before this one, too.
        redis.execute(&["PTTL", ""], unix);
        let keys = keys(words);
        let before: Vec<_> = keys.iter().map(|key| redis.stored(key).cloned()).collect();
        apply(redis, trouble);
        if is_asking {
            redis.execute(&["ASKING"], unix);
        }
        let reply = match wrong.and_then(|wrong| wrong.in_script(script, words)) {
            Some(words) => redis.execute(&words, unix),
            None => redis.execute(words, unix),
        };
        apply(redis, None);
        let changed = keys.into_iter().zip(before).map(|(key, before)| {
            let is_changed = redis.stored(&key) != before.as_ref();
            (key, is_changed)
        });
        let keys = changed.collect();
        if let Some((mut other, process, until)) = stale {
            mem::swap(redis, &mut other);
            state.stale = Some((other, process, until));
        }
        Executed { reply, script, keys }
    }

    /// Returns all keys that have not expired.
    pub(crate) fn keys(&mut self, now: Micros) -> Vec<Vec<u8>> {
        let unix = self.clock.unix_micros(now);
        let mut keys = Vec::new();
        for redis in self.nodes() {
            redis.execute(&["PTTL", ""], unix);
            keys.extend(redis.keys().map(|(key, _)| key.to_vec()));
        }
        keys
    }

    pub(crate) fn has_trouble(&mut self, node: usize, trouble: Trouble, until: Micros) {
        self.at(node, |_, state| state.trouble = Some((trouble, until)));
    }

    /// Executes all calls, and answers all processes.
    pub(crate) fn heal(&mut self) {
        for state in &mut self.states {
            (state.trouble, state.stale) = (None, None);
        }
    }

    /// Loses all keys and scripts of a node.
    pub(crate) fn restart(&mut self, node: usize, now: Micros) {
        self.flush_scripts(node, now);
        let unix = self.clock.unix_micros(now);
        self.at(node, |redis, _| drop(redis.execute(&["FLUSHALL"], unix)));
    }

    /// Loses all scripts of a node.
    pub(crate) fn flush_scripts(&mut self, node: usize, now: Micros) {
        let unix = self.clock.unix_micros(now);
        self.at(node, |redis, _| drop(redis.execute(&["SCRIPT", "FLUSH"], unix)));
    }

    /// Brings all replicas up to date.
    pub(crate) fn replicate(&mut self) {
        for node in 0..self.len() {
            self.at(node, |redis, state| state.replica = redis.clone());
        }
    }

    /// Lets the replica of a node answer a process for a time, and execute its calls.
    pub(crate) fn answers_stale(&mut self, node: usize, process: ProcessId, until: Micros) {
        self.at(node, |_, state| state.stale = Some((state.replica.clone(), process, until)));
    }

    /// Puts the replica in the place of a node.
    pub(crate) fn fail_over(&mut self, node: usize) {
        self.at(node, |redis, state| *redis = state.replica.clone());
    }

    /// Begins to move the slot of a key to another node. Returns `false` without a cluster.
    pub(crate) fn begin_move(&mut self, key: &[u8], step: usize) -> bool {
        let to = (self.node_of(key) + step) % self.len();
        let Nodes::Many(cluster) = &mut self.redis else { return false };
        cluster.begin_move(slot(key), to);
        true
    }

    /// Moves a key, or with `is_last` all keys of its slot, which the other node has from now on.
    pub(crate) fn move_key(&mut self, key: &[u8], is_last: bool) {
        if let Nodes::Many(cluster) = &mut self.redis {
            match is_last {
                true => cluster.end_move(slot(key)),
                false => cluster.move_key(key),
            }
            // A failover loses no key that has just moved, and brings none back.
            self.replicate();
        }
    }

    fn name(&self, words: &[Vec<u8>]) -> &'static str {
        let [command, script, ..] = words else { return "" };
        let name = match command.as_slice() {
            b"EVALSHA" => self.names.get(&*String::from_utf8_lossy(script)),
            b"EVAL" => self.names.get(&scripts::digest(&String::from_utf8_lossy(script))),
            _ => None,
        };
        name.copied().unwrap_or("")
    }
}

fn apply(redis: &mut Redis, trouble: Option<Trouble>) {
    let is_full = matches!(trouble, Some(Trouble::Full));
    redis.set_max_memory(is_full.then_some(0));
    let (refusal, denied) = match trouble {
        Some(Trouble::Refuses(refusal)) => (Some(refusal), None),
        Some(Trouble::Denies(command)) => (None, Some(command)),
        Some(Trouble::Full) | None => (None, None),
    };
    redis.refuse(refusal);
    redis.deny(denied.as_slice());
}

/// Returns the keys of a script call.
pub(crate) fn keys(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let number = words.get(2).and_then(|number| str::from_utf8(number).ok()?.parse().ok());
    words.iter().skip(3).take(number.unwrap_or(0)).cloned().collect()
}
