//! A client of limiters whose calls run on a real server and on the double, which have to do the same.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use limiter_core::{Clock, ManualClock, Timer};
use limiter_double::{Reply, Value, Version};
use limiter_redis::{CallError, ScriptCall, ScriptClient, ScriptReply, scripts};
use tokio::runtime::Handle;

use crate::{
    pair::{Pair, in_order, now, number, shown},
    random::Random,
    wire::Words,
};

/// The server's time at first, in microseconds.
const START: i64 = 1_700_000_000_000_000;

/// The hash of the times at which keys of the real server expire.
const EXPIRIES: &[u8] = b"expiries";

#[derive(Clone)]
pub(crate) struct Client {
    both: Arc<Mutex<Both>>,
    clock: ManualClock,
    runtime: Handle,
}

/// A real server and the double.
pub(crate) struct Both {
    pub(crate) pair: Pair,
    /// The time that the test sets, in microseconds.
    now: i64,
    /// Whether scripts run as they are sent, except that their time stands still, while keys expire by the real clock.
    is_still: bool,
    /// The digests of the texts that are run, by the scripts' names.
    known: BTreeMap<&'static str, Vec<u8>>,
    /// How many calls of each script were compared, and how many of these replied an error.
    pub(crate) calls: BTreeMap<&'static str, (usize, usize)>,
    /// What was not the same, also in calls that nobody waits for.
    pub(crate) differences: Vec<String>,
}

impl Client {
    pub(crate) fn start(clock: ManualClock, is_still: bool, runtime: Handle) -> Self {
        let both = Both {
            pair: Pair::start(),
            now: START,
            is_still,
            known: BTreeMap::new(),
            calls: BTreeMap::new(),
            differences: Vec::new(),
        };
        Self { both: Arc::new(Mutex::new(both)), clock, runtime }
    }

    pub(crate) fn both(&self) -> MutexGuard<'_, Both> {
        // Permits that a failed test drops make calls.
        self.both.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the clocks of the servers and of the process.
    pub(crate) fn advance(&self, by: Duration) {
        self.both().now += i64::try_from(by.as_micros()).unwrap();
        self.clock.advance(by);
    }
}

impl ScriptClient for Client {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        match self.both().run(call) {
            Reply::Error(error) => Err(CallError::from_error_reply("both", &error)),
            reply => Ok(read(reply)),
        }
    }

    fn supports_batches(&self) -> bool {
        true
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.clock.sleep_until(self.clock.now().saturating_add(time))
    }
}

fn read(reply: Reply) -> ScriptReply {
    match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) | Reply::Error(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8_lossy(&text).into_owned()),
        Reply::Array(replies) => ScriptReply::Array(replies.into_iter().map(read).collect()),
        Reply::Nil => ScriptReply::Nil,
    }
}

impl Both {
    pub(crate) const fn is_still(&self) -> bool {
        self.is_still
    }

    /// Checks that all calls did the same.
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(
            self.differences.is_empty(),
            "{:?}: {}",
            self.pair.version,
            self.differences.join("\n")
        );
    }

    /// Checks that the same is stored at all keys, and deletes them.
    #[track_caller]
    pub(crate) fn check_keys(&mut self) {
        let keys: Vec<_> =
            self.pair.double.keys().map(|(key, stored)| (key.to_vec(), stored.clone())).collect();
        let mut commands = Vec::new();
        for (key, stored) in &keys {
            let read: &[&str] = match stored.value {
                Value::Text(_) => &["GET"],
                Value::Hash(_) => &["HGETALL"],
                Value::List(_) => &["LRANGE", "0", "-1"],
                Value::SortedSet(_) => &["ZRANGE", "0", "-1", "WITHSCORES"],
            };
            let mut read: Words = read.iter().map(|word| word.as_bytes().to_vec()).collect();
            read.insert(1, key.clone());
            commands.extend([read, vec![b"PTTL".to_vec(), key.clone()]]);
        }
        self.pair.same_all(&commands);
        assert_eq!(
            number(&self.pair.connection.call(&["DBSIZE"])),
            i64::try_from(keys.len()).unwrap()
        );
        self.pair.same(&["FLUSHALL"]);
    }

    /// Calls a script on both.
    fn run(&mut self, call: &ScriptCall) -> Reply {
        let arguments = call.args();
        let (name, text) = script(&arguments[1]);
        let reply = if self.is_still {
            self.run_still(name, text, &arguments)
        } else {
            self.run_replayed(name, text, call)
        };
        let is_loaded = !is_no_script(&reply);
        let (calls, failures) = self.calls.entry(name).or_default();
        *calls += usize::from(is_loaded);
        *failures += usize::from(is_loaded && matches!(reply, Reply::Error(_)));
        reply
    }

    /// Runs a script at a time that stands still.
    fn run_still(
        &mut self,
        name: &'static str,
        text: &str,
        arguments: &[impl AsRef<[u8]>],
    ) -> Reply {
        if !self.known.contains_key(name) {
            let text = lasting(&text.replace("redis.call('TIME')", "{ '1700000000', '5' }"));
            let Reply::Bulk(known) = self.pair.same(&["SCRIPT", "LOAD", &text]) else {
                panic!("no digest");
            };
            self.known.insert(name, known);
        }
        let mut command: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        (command[0], command[1]) = (b"EVALSHA", &self.known[name]);
        let real = self.pair.connection.call(&command);
        let double = self.pair.double.execute(&command, now());
        if double != real {
            self.differences.push(format!("{:?}\n{double:?}\n{real:?}", shown(&command[2..])));
        }
        real
    }

    /// Runs a script at the time that the test sets.
    fn run_replayed(&mut self, name: &'static str, text: &str, call: &ScriptCall) -> Reply {
        let arguments = call.args();
        let reply = self.pair.double.execute(&arguments, self.now);
        // Limiters send the text then.
        if is_no_script(&reply) {
            return reply;
        }
        let (kind, plain) = match &reply {
            Reply::Error(error) => ("error", Reply::Bulk(self.without_place(error).into())),
            reply => ("reply", reply.clone()),
        };
        let mut expected = vec![Reply::Bulk(kind.into()), plain];
        for key in &call.keys {
            expected.extend(self.report(key));
        }
        let mut real = self.replay(name, text, call);
        // Behind the reply, each key has its type, what is stored, and the expiry.
        for key in real.iter_mut().skip(2).collect::<Vec<_>>().chunks_mut(3) {
            if let [Reply::Bulk(kind), fields, _] = key
                && kind == b"hash"
            {
                **fields = in_order(fields.clone());
            }
        }
        if let [Reply::Bulk(kind), Reply::Bulk(error), ..] = &mut real[..]
            && kind == b"error"
        {
            *error = self.without_place(&String::from_utf8_lossy(error)).into();
        }
        if expected != real {
            let call = shown(&arguments[2..]);
            self.differences
                .push(format!("{name} at {}: {call:?}\n{expected:?}\n{real:?}", self.now));
        }
        reply
    }

    /// Returns what the real server should report of a key.
    fn report(&mut self, key: &[u8]) -> [Reply; 3] {
        let expiry = self.pair.double.stored(key).and_then(|stored| stored.expires_at);
        let expiry = expiry.map(|at| at.to_string()).unwrap_or_default();
        let mut read = |words: &[&[u8]]| self.pair.double.execute(words, self.now);
        let Reply::Status(kind) = read(&[b"TYPE", key]) else { panic!("no type") };
        let value = match kind.as_str() {
            "string" => read(&[b"GET", key]),
            "hash" => in_order(read(&[b"HGETALL", key])),
            "list" => read(&[b"LRANGE", key, b"0", b"-1"]),
            "zset" => read(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            _ => Reply::Bulk(Vec::new()),
        };
        [Reply::Bulk(kind.into()), value, Reply::Bulk(expiry.into())]
    }

    /// Runs a script on the real server, and returns its report.
    fn replay(&mut self, name: &'static str, text: &str, call: &ScriptCall) -> Vec<Reply> {
        if !self.known.contains_key(name) {
            let replay = include_str!("replay.lua").replace("--SCRIPT", text);
            let reply = self.pair.connection.call(&["SCRIPT", "LOAD", &replay]);
            let Reply::Bulk(known) = reply else { panic!("{reply:?}") };
            self.known.insert(name, known);
        }
        let count = (call.keys.len() + 1).to_string().into_bytes();
        let mut command: Words = vec![b"EVALSHA".to_vec(), self.known[name].clone(), count];
        command.extend(call.keys.iter().map(|key| key.to_vec()));
        command.push(EXPIRIES.to_vec());
        command.extend(call.arguments.iter().map(|argument| argument.to_vec()));
        command.push(self.now.to_string().into_bytes());
        match self.pair.connection.call(&command) {
            Reply::Array(report) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Returns an error without the place where it occurred, which differs.
    fn without_place(&self, error: &str) -> String {
        let error = match self.pair.version {
            Version::Redis6_2 => error
                .split_once("@user_script:")
                .map_or(error, |(_, rest)| rest.split_once(": ").map_or(rest, |(_, text)| text)),
            _ => error.split_once(" script: ").map_or(error, |(text, _)| text),
        };
        error.to_owned()
    }

    /// Plants a value at a key of both, which may be damaged: the one that is there, or another one, with a change.
    pub(crate) fn plant(&mut self, key: &[u8], random: &mut Random) {
        let stored = self.pair.double.stored(key).cloned();
        let damaged =
            |text: &[u8], random: &mut Random| damaged(&String::from_utf8_lossy(text), random);
        let value = match stored.map(|stored| stored.value) {
            Some(Value::List(mut list)) if !random.once_in(8) => {
                let place = random.index(list.len());
                match random.below(3) {
                    0 if list.len() > 1 => drop(list.remove(place)),
                    1 => list.insert(place, list[place].clone()),
                    _ => list[place] = damaged(&list[place], random).into_bytes(),
                }
                list.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
            }
            Some(Value::Hash(mut fields)) if !random.once_in(8) => {
                let place = random.index(fields.len());
                fields[place].1 = damaged(&fields[place].1, random).into_bytes();
                if random.once_in(4) {
                    fields.truncate(place + 1);
                }
                let words = fields.iter().flat_map(|(field, value)| [&field[..], value]);
                self.delete(key);
                self.command(&[b"HSET", key].into_iter().chain(words).collect::<Vec<_>>());
                return;
            }
            Some(Value::SortedSet(_)) if !random.once_in(4) => {
                let score =
                    self.now + i64::try_from(random.below(200_000_000)).unwrap() - 100_000_000;
                self.command(&[b"ZADD", key, score.to_string().as_bytes(), b"planted"]);
                return;
            }
            _ => {
                vec![random.choose(&["", "1", "abc", "1700000000000000 1", "-1 5, 3"]).to_string()]
            }
        };
        let is_list = value.len() > 1 || random.once_in(10);
        let values: Vec<_> = value.iter().map(String::as_bytes).collect();
        self.delete(key);
        match (is_list, &values[..]) {
            (false, [value]) => self.command(&[b"SET", key, value]),
            _ => self.command(&[&[&b"RPUSH"[..], key], &values[..]].concat()),
        }
    }

    /// Deletes a key that on the real server may be there still, although it has expired.
    fn delete(&mut self, key: &[u8]) {
        self.pair.double.execute(&[b"DEL", key], self.now);
        self.pair.connection.call(&[b"DEL", key]);
        self.pair.connection.call(&[b"HDEL", EXPIRIES, key]);
    }

    fn command(&mut self, words: &[&[u8]]) {
        let (double, real) =
            (self.pair.double.execute(words, self.now), self.pair.connection.call(words));
        assert_eq!(double, real, "{:?}", shown(words));
    }
}

fn is_no_script(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.starts_with("NOSCRIPT"))
}

/// Returns the name and the text of the script with a text or a digest.
fn script(called: &[u8]) -> (&'static str, &'static str) {
    static DIGESTS: LazyLock<Vec<String>> =
        LazyLock::new(|| scripts::all().map(|(_, text)| scripts::digest(text)).collect());
    let mut all = scripts::all().zip(&*DIGESTS);
    let is_called = |text: &str, digest: &str| [text, digest].map(str::as_bytes).contains(&called);
    all.find(|((_, text), digest)| is_called(text, digest)).unwrap().0
}

/// Returns a script whose keys last an hour longer, and so outlast the test.
fn lasting(text: &str) -> String {
    let mut parts = text.split("'PEXPIRE', ");
    let mut lasting = parts.next().unwrap().to_owned();
    for part in parts {
        let (key, rest) = part.split_once(", ").unwrap();
        lasting += &format!("'PEXPIRE', {key}, 3600000 + {rest}");
    }
    lasting
}

/// Returns a text of numbers with one change.
fn damaged(text: &str, random: &mut Random) -> String {
    let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
    let place = random.index(words.len());
    let number = words[place].trim_end_matches(',').parse::<i64>().unwrap_or(0);
    match random.below(8) {
        0 => drop(words.remove(place)),
        1 => words[place] = "x".to_owned(),
        2 => words[place] = format!("-{}", words[place]),
        3 => words[place].push_str(".5"),
        4 => words[place].push_str("000"),
        5 => words.insert(place, "1".to_owned()),
        _ => words[place] = number.saturating_add_unsigned(random.below(2_000_000)).to_string(),
    }
    words.join(" ")
}
