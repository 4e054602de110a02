//! A server: a Redis in the process, a clock that steps and slews, a replica that lags, and what is wrong with it.

mod clock;
mod wrong;

use std::{collections::BTreeMap, mem};

use limiter_double::{Refusal, Reply, Server as Redis, Value};
use limiter_redis::scripts;

use self::{clock::ServerClock, wrong::Execution};
use crate::{
    vocabulary::{Micros, ProcessId},
    wrong::Wrong,
};

/// A server: the only one, or a node of a cluster.
#[derive(Debug)]
pub(crate) struct Server {
    redis: Redis,
    /// The keyspace as it was a while ago.
    replica: Redis,
    /// A stale server, the process that it answers, and until when.
    stale: Option<(Redis, ProcessId, Micros)>,
    pub(crate) clock: ServerClock,
    /// Why it does not execute all commands, and until when.
    pub(crate) trouble: Option<(Trouble, Micros)>,
    /// The names of the scripts, by their digests.
    names: BTreeMap<String, &'static str>,
    execution: Execution,
}

/// Why a server does not execute all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its memory is full, so that commands fail that need some.
    Full,
    Refuses(Refusal),
}

impl Trouble {
    /// Those in which no command is executed.
    pub(crate) const OF_ALL_COMMANDS: [Self; 3] = [
        Self::Refuses(Refusal::Loading),
        Self::Refuses(Refusal::Busy),
        Self::Refuses(Refusal::MasterDown),
    ];

    /// Those in which commands that only read are executed.
    pub(crate) const OF_WRITES: [Self; 4] = [
        Self::Full,
        Self::Refuses(Refusal::ReadOnly),
        Self::Refuses(Refusal::Misconf),
        Self::Refuses(Refusal::NoReplicas),
    ];
}

/// What the server did with a call.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) reply: Reply,
    pub(crate) script: &'static str,
    /// The keys, and whether the value of each was changed.
    pub(crate) keys: Vec<(Vec<u8>, bool)>,
    /// How many permits of the first key have deadlines that are not over.
    pub(crate) unexpired: usize,
}

impl Executed {
    /// Returns what was done if no key was read or written.
    pub(crate) const fn without_keys(reply: Reply, script: &'static str) -> Self {
        Self { reply, script, keys: Vec::new(), unexpired: 0 }
    }
}

impl Server {
    /// Returns a server without keys and scripts.
    #[must_use]
    pub(crate) fn new(wrong: Option<Wrong>) -> Self {
        let names = scripts::all().map(|(name, text)| (scripts::digest(text), name)).collect();
        let redis = Redis::default();
        Self {
            replica: redis.clone(),
            redis,
            stale: None,
            clock: ServerClock::new(),
            trouble: None,
            names,
            execution: Execution::new(wrong),
        }
    }

    /// Executes a call of a process, unless the server refuses to.
    pub(crate) fn execute(
        &mut self,
        process: ProcessId,
        words: &[Vec<u8>],
        now: Micros,
    ) -> Executed {
        let is_stale =
            |(_, other, until): &(Redis, ProcessId, Micros)| process == *other && now < *until;
        let Some((stale, ..)) = self.stale.as_mut().filter(|stale| is_stale(stale)) else {
            return self.execute_fresh(process, words, now);
        };
        // Its changes are those of the stale server, as long as it answers.
        mem::swap(&mut self.redis, stale);
        let executed = self.execute_fresh(process, words, now);
        if let Some((stale, ..)) = &mut self.stale {
            mem::swap(&mut self.redis, stale);
        }
        executed
    }

    fn execute_fresh(&mut self, process: ProcessId, words: &[Vec<u8>], now: Micros) -> Executed {
        let script = self.name(words);
        let trouble = self.trouble.filter(|(_, until)| now < *until).map(|(trouble, _)| trouble);
        let keys = keys(words);
        // So that a key that has expired since the last command is absent before this one, too.
        self.redis.execute(&["PTTL", ""], self.clock.unix_micros(now));
        let values: Vec<_> = keys.iter().map(|key| self.redis.stored(key).cloned()).collect();
        let fast = if self.execution.wrong == Some(Wrong::ClockRunsFast) { now / 10 } else { 0 };
        let now = self.clock.unix_micros(now + fast);
        self.set_trouble(trouble);
        let reply = self.execution.run(&mut self.redis, (process, words), script, now);
        self.set_trouble(None);
        let unexpired = keys.first().map_or(0, |key| unexpired(&self.redis, key, now));
        let keys = keys.into_iter().zip(values).map(|(key, before)| {
            let is_changed = self.redis.stored(&key) != before.as_ref();
            (key, is_changed)
        });
        let keys: Vec<_> = keys.collect();
        Executed { keys, reply, script, unexpired }
    }

    fn set_trouble(&mut self, trouble: Option<Trouble>) {
        self.redis.set_max_memory((trouble == Some(Trouble::Full)).then_some(0));
        self.redis.refuse(match trouble {
            Some(Trouble::Refuses(refusal)) => Some(refusal),
            Some(Trouble::Full) | None => None,
        });
    }

    /// Returns how many permits of a key have deadlines that are not over, and whether there is a key at all.
    pub(crate) fn permits(&mut self, key: &[u8], now: Micros) -> (usize, bool) {
        let now = self.clock.unix_micros(now);
        self.redis.execute(&["PTTL", ""], now);
        (unexpired(&self.redis, key, now), self.redis.stored(key).is_some())
    }

    /// Executes all calls, and answers all processes.
    pub(crate) fn heal(&mut self) {
        (self.trouble, self.stale) = (None, None);
    }

    /// Loses all keys and scripts.
    pub(crate) fn restart(&mut self) {
        self.redis = Redis::default();
    }

    /// Loses all scripts.
    pub(crate) fn flush_scripts(&mut self, now: Micros) {
        self.redis.execute(&["SCRIPT", "FLUSH"], self.clock.unix_micros(now));
    }

    /// Brings the replica up to date.
    pub(crate) fn replicate(&mut self) {
        self.replica = self.redis.clone();
    }

    /// Lets the replica answer a process for a time, and execute its calls.
    pub(crate) fn answers_stale(&mut self, process: ProcessId, until: Micros) {
        self.stale = Some((self.replica.clone(), process, until));
    }

    /// Puts the replica in the place of the server.
    pub(crate) fn fail_over(&mut self) {
        self.redis = self.replica.clone();
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

/// Returns how many permits of a key have deadlines that are not over.
fn unexpired(redis: &Redis, key: &[u8], now: i64) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        reason = "scores are doubles, which have all microseconds"
    )]
    let now = now as f64;
    match redis.stored(key).map(|stored| &stored.value) {
        Some(Value::SortedSet(permits)) => permits.values().filter(|it| **it > now).count(),
        _ => 0,
    }
}

/// Returns the keys of a script call.
pub(crate) fn keys(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let number = words.get(2).and_then(|number| str::from_utf8(number).ok()?.parse().ok());
    words.iter().skip(3).take(number.unwrap_or(0)).cloned().collect()
}
