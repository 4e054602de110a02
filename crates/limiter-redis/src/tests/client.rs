//! A client of servers in this process, by clocks that the test sets. Tests of other crates include this file.

use std::{
    collections::BTreeMap,
    mem,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use limiter_core::{Clock, ManualClock, Timer, Timestamp};
use limiter_double::{Cluster, Reply, Server, Stored, Version};
use limiter_redis::{
    CallError, CircuitBreaker, Fault, ScriptCall, ScriptClient, ScriptReply, scripts,
};

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Served,
    /// It is executed, and its reply arrives after a time.
    Late(Duration),
    LostRequest,
    LostReply,
    /// The server does not execute it, and replies an error.
    Refused(&'static str),
    /// The server does not execute it, and replies this.
    Replied(i64),
}

/// Decides what becomes of a call of a script.
type Decide = dyn FnMut(&str) -> Fate + Send;

/// A call that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) script: &'static str,
    /// `EVALSHA` or `EVAL`.
    pub(crate) command: String,
    pub(crate) within: Duration,
}

/// A client, whose tasks the test runs. Clones have the same servers.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    nodes: Mutex<Nodes>,
    /// The time of all servers.
    now: Mutex<Timestamp>,
    /// The clock of the process, which never steps back.
    clock: ManualClock,
    tasks: Mutex<Vec<Task>>,
    sent: Mutex<Vec<Sent>>,
    fate: Mutex<Box<Decide>>,
    is_cluster: bool,
    breaker: CircuitBreaker,
}

enum Nodes {
    One(Server),
    Several(Cluster),
}

impl Client {
    /// Returns the client of a server of its own, which has all scripts.
    pub(crate) fn new() -> Self {
        Self::of(Nodes::One(Server::default()))
    }

    /// Returns the client of a cluster of its own, whose nodes have all scripts.
    pub(crate) fn of_cluster() -> Self {
        let addresses = ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"];
        Self::of(Nodes::Several(Cluster::new(Version::default(), &addresses)))
    }

    fn of(mut nodes: Nodes) -> Self {
        for server in nodes.all() {
            for (_, text) in scripts::all() {
                server.execute(&["SCRIPT", "LOAD", text], 0);
            }
        }
        let clock = ManualClock::new();
        // At zero, the clock would hide what is subtracted from it.
        clock.advance(Duration::from_micros(7));
        Self(Arc::new(Shared {
            breaker: CircuitBreaker::new(CircuitBreaker::DEFAULT_SILENCE, clock.clone()).unwrap(),
            is_cluster: matches!(nodes, Nodes::Several(_)),
            nodes: Mutex::new(nodes),
            now: Mutex::new(Timestamp::ZERO),
            clock,
            tasks: Mutex::default(),
            sent: Mutex::default(),
            fate: Mutex::new(Box::new(|_| Fate::Served)),
        }))
    }

    /// Sets the servers' time. If it is later than before, as much time passes for the process.
    pub(crate) fn set_time(&self, now: Timestamp) {
        let before = mem::replace(&mut *self.0.now.lock().unwrap(), now);
        self.0.clock.advance(now.saturating_since(before));
    }

    /// Lets time pass for the servers and the process.
    pub(crate) fn pass(&self, time: Duration) {
        self.set_time(self.time().saturating_add(time));
    }

    fn time(&self) -> Timestamp {
        *self.0.now.lock().unwrap()
    }

    /// Returns the clock of the process.
    pub(crate) fn clock(&self) -> ManualClock {
        self.0.clock.clone()
    }

    /// Runs a command, in a cluster on the node that serves its key.
    pub(crate) fn execute(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        let now = i64::try_from(self.time().as_nanos() / 1_000).unwrap();
        self.0.nodes.lock().unwrap().execute(words, now)
    }

    /// Changes the settings of all servers.
    pub(crate) fn set_up(&self, change: impl Fn(&mut Server)) {
        self.0.nodes.lock().unwrap().all().iter_mut().for_each(change);
    }

    /// Returns what is stored at a key.
    pub(crate) fn stored(&self, key: &[u8]) -> Option<Stored> {
        // The server's time is that of its last command.
        self.execute(&[b"EXISTS", key]);
        self.0.nodes.lock().unwrap().all().iter().find_map(|server| server.stored(key).cloned())
    }

    /// Decides what becomes of calls, by the names of their scripts.
    pub(crate) fn set_fate(&self, fate: impl FnMut(&str) -> Fate + Send + 'static) {
        *self.0.fate.lock().unwrap() = Box::new(fate);
    }

    /// Returns the calls since the last time.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        mem::take(&mut *self.0.sent.lock().unwrap())
    }

    /// Returns the tasks that were spawned since the last time.
    pub(crate) fn spawned(&self) -> Vec<Task> {
        mem::take(&mut *self.0.tasks.lock().unwrap())
    }
}

impl ScriptClient for Client {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let words = call.args();
        let script = name_of(&words[1]);
        let command = String::from_utf8_lossy(&words[0]).into_owned();
        let sent = Sent { script, command, within };
        let within = call.reply_within(within);
        self.0.sent.lock().unwrap().push(sent);
        let no_reply = || CallError::new(Fault::NoReply, "no reply in time");
        let failed = |error: &str| CallError::from_error_reply("the double", error);
        let fate = (self.0.fate.lock().unwrap())(script);
        match fate {
            Fate::Refused(error) => return Err(failed(error)),
            Fate::Replied(number) => return Ok(ScriptReply::Integer(number)),
            Fate::LostRequest => {
                self.sleep(within).await;
                return Err(no_reply());
            }
            Fate::Served | Fate::Late(_) | Fate::LostReply => {}
        }
        let reply = self.execute(&words);
        match fate {
            Fate::Late(by) if by < within => self.sleep(by).await,
            Fate::LostReply | Fate::Late(_) => {
                self.sleep(within).await;
                return Err(no_reply());
            }
            _ => {}
        }
        match reply {
            Reply::Error(error) => Err(failed(&error)),
            reply => Ok(read(reply)),
        }
    }

    fn breaker(&self) -> Option<CircuitBreaker> {
        Some(self.0.breaker.clone())
    }

    fn supports_batches(&self) -> bool {
        !self.0.is_cluster
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.lock().unwrap().push(Box::pin(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let clock = self.0.clock.clone();
        let ends = clock.now().saturating_add(time);
        async move { clock.sleep_until(ends).await }
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(async move { work() });
    }
}

impl Nodes {
    fn all(&mut self) -> &mut [Server] {
        match self {
            Self::One(server) => std::slice::from_mut(server),
            Self::Several(cluster) => cluster.nodes(),
        }
    }

    /// Runs a command, and follows the redirections of a cluster.
    fn execute(&mut self, words: &[impl AsRef<[u8]>], now: i64) -> Reply {
        let mut reply = self.all()[0].execute(words, now);
        while let (Self::Several(cluster), Reply::Error(error)) = (&mut *self, &reply) {
            let parts: Vec<_> = error.split(' ').collect();
            let ["MOVED" | "ASK", _, address] = parts[..] else { break };
            let node = cluster.at(address).expect("a node of the cluster");
            if parts[0] == "ASK" {
                node.execute(&["ASKING"], now);
            }
            reply = node.execute(words, now);
        }
        reply
    }
}

/// Returns the name of a script by its digest or its text.
fn name_of(script: &[u8]) -> &'static str {
    static NAMES: LazyLock<BTreeMap<Vec<u8>, &str>> = LazyLock::new(|| {
        let names = scripts::all().flat_map(|(name, text)| {
            [scripts::digest(text), text.to_owned()].map(|script| (script.into_bytes(), name))
        });
        names.collect()
    });
    NAMES.get(script).expect("a script that limiters send")
}

/// Returns a reply as clients return it.
pub(crate) fn read(reply: Reply) -> ScriptReply {
    match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8(text).unwrap()),
        Reply::Array(replies) => ScriptReply::Array(replies.into_iter().map(read).collect()),
        Reply::Nil | Reply::Error(_) => ScriptReply::Nil,
    }
}
