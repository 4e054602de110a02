//! A client of limiters whose calls run on a real server and on the double, which have to do the same.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use limiter_core::{Clock, ManualClock, Timer};
use limiter_double::{Reply, Version};
use limiter_redis::{CallError, ScriptCall, ScriptClient, ScriptReply, scripts};
use tokio::runtime::Handle;

use crate::{
    pair::{Pair, in_order, shown},
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
    /// The digests of the texts that are run, by the scripts' names.
    known: BTreeMap<&'static str, Vec<u8>>,
    /// How many calls of each script were compared, and how many of these replied an error.
    pub(crate) calls: BTreeMap<&'static str, (usize, usize)>,
    /// What was not the same, also in calls that nobody waits for.
    pub(crate) differences: Vec<String>,
}

impl Client {
    pub(crate) fn start(clock: ManualClock, runtime: Handle) -> Self {
        let both = Both {
            pair: Pair::start(),
            now: START,
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

    /// Runs a script on both, at the time that the test sets.
    fn run(&mut self, call: &ScriptCall) -> Reply {
        let arguments = call.args();
        let (name, text) = script(&arguments[1]);
        let reply = self.pair.double.execute(&arguments, self.now);
        // Limiters send the text then.
        if matches!(&reply, Reply::Error(error) if error.starts_with("NOSCRIPT")) {
            return reply;
        }
        let (calls, failures) = self.calls.entry(name).or_default();
        *calls += 1;
        *failures += usize::from(matches!(reply, Reply::Error(_)));
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
}

/// Returns the name and the text of the script with a text or a digest.
fn script(called: &[u8]) -> (&'static str, &'static str) {
    static DIGESTS: LazyLock<Vec<String>> =
        LazyLock::new(|| scripts::all().map(|(_, text)| scripts::digest(text)).collect());
    let mut all = scripts::all().zip(&*DIGESTS);
    let is_called = |text: &str, digest: &str| [text, digest].map(str::as_bytes).contains(&called);
    all.find(|((_, text), digest)| is_called(text, digest)).unwrap().0
}
