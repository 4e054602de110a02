//! Calls to the nodes of a cluster, whose nodes are servers in the process.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fred::types::{Value, config::Server as Address};
use limiter_core::{Clock, Timestamp};
use limiter_double::{Cluster as Double, Reply, Version};
use tokio::{runtime::Handle, time::Instant};

use super::{events::log::Log, store::policy};
use crate::{
    CallError, CircuitBreaker, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply,
    client::{
        cluster::routing::Cluster,
        node::{Command, Connect, LastFailure, Node},
        slot,
    },
};

const ADDRESSES: [&str; 3] = ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"];

/// More failures in a row than open a circuit breaker.
const FAILURES: usize = 6;

/// The servers, and what connects to them.
#[derive(Clone)]
struct Network {
    servers: Arc<Mutex<Double>>,
    /// The addresses of servers that do not reply.
    silent: Arc<Mutex<BTreeSet<String>>>,
    last_failure: Arc<LastFailure>,
    runtime: Handle,
    start: Instant,
}

impl Network {
    fn new() -> Self {
        Self {
            servers: Arc::new(Mutex::new(Double::new(Version::default(), &ADDRESSES))),
            silent: Arc::default(),
            last_failure: Arc::new(LastFailure::of("the cluster".to_owned())),
            runtime: Handle::current(),
            start: Instant::now(),
        }
    }

    fn execute(&self, address: &str, words: &[&[u8]]) -> Reply {
        let now = 1_702_080_000_000_000 + i64::try_from(self.start.elapsed().as_micros()).unwrap();
        self.servers.lock().unwrap().at(address).unwrap().execute(words, now)
    }
}

impl Connect for Network {
    type Node = InProcess;

    fn connect(&self, server: &Address, name: &str) -> InProcess {
        let address = format!("{}:{}", server.host, server.port);
        InProcess { network: self.clone(), address, name: name.to_owned() }
    }

    fn noting(&self, last_failure: LastFailure) -> Self {
        Self { last_failure: Arc::new(last_failure), ..self.clone() }
    }

    fn last_failure(&self) -> &Arc<LastFailure> {
        &self.last_failure
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// A server in the process.
#[derive(Clone)]
struct InProcess {
    network: Network,
    address: String,
    name: String,
}

impl Node for InProcess {
    async fn run<T: Send>(
        &self,
        first: Option<&'static str>,
        command: Command,
        within: Duration,
        read: impl FnOnce(Value) -> Result<T, CallError> + Send,
    ) -> Result<T, CallError> {
        if self.network.silent.lock().unwrap().contains(&self.address) {
            tokio::time::sleep(within).await;
            return Err(CallError::new(Fault::NoReply, "no reply"));
        }
        if let Some(first) = first {
            self.network.execute(&self.address, &[first.as_bytes()]);
        }
        let arguments = command.arguments.iter().map(|word| word.as_bytes().unwrap());
        let words: Vec<_> = [command.name.as_bytes()].into_iter().chain(arguments).collect();
        read(value(self.network.execute(&self.address, &words), &self.name)?)
    }

    async fn connected(&self) {}

    fn is_connected(&self) -> bool {
        true
    }

    fn replace_connection(&self) {}

    fn without_reconnecting(&self) -> Self {
        self.clone()
    }
}

fn value(reply: Reply, server: &str) -> Result<Value, CallError> {
    Ok(match reply {
        Reply::Integer(number) => Value::Integer(number),
        Reply::Status(text) => Value::String(text.into()),
        Reply::Bulk(text) => Value::Bytes(text.into()),
        Reply::Nil => Value::Null,
        Reply::Array(all) => {
            let all = all.into_iter().map(|reply| value(reply, server));
            Value::Array(all.collect::<Result<_, _>>()?)
        }
        Reply::Error(text) => return Err(CallError::from_error_reply(server, &text)),
    })
}

/// A client of the cluster, and the clock of the runtime.
#[derive(Clone)]
struct Client {
    network: Network,
    cluster: Arc<Cluster<Network>>,
    breaker: CircuitBreaker,
}

impl Client {
    async fn new() -> Self {
        let network = Network::new();
        let clock = RuntimeClock(network.start);
        let breaker = CircuitBreaker::new(CircuitBreaker::DEFAULT_SILENCE, clock).unwrap();
        let (host, port) = ADDRESSES[0].rsplit_once(':').unwrap();
        let seeds = vec![Address::new(host, port.parse().unwrap())];
        let cluster = Cluster::new(network.clone(), seeds, breaker.clone());
        cluster.connected().await;
        Self { network, cluster, breaker }
    }

    fn limiter(&self, text: &str) -> RedisLimiter<Self> {
        let builder = RedisLimiter::builder(policy(text)).clock(RuntimeClock(self.network.start));
        builder.denial_cache(0).build_on(self.clone()).unwrap()
    }

    /// Returns the keys of a subject, and the numbers of the node that has them and of another one.
    fn place(&self, limiter: &RedisLimiter<Self>, subject: &str) -> (Vec<Vec<u8>>, usize, usize) {
        let keys = limiter.stored_keys(subject).unwrap();
        let owner = self.network.servers.lock().unwrap().owner(slot(&keys[0])).unwrap();
        (keys, owner, (owner + 1) % ADDRESSES.len())
    }

    /// Begins to move the slot of a subject.
    fn begin_move(&self, limiter: &RedisLimiter<Self>, subject: &str) {
        let (keys, _, to) = self.place(limiter, subject);
        self.network.servers.lock().unwrap().begin_move(slot(&keys[0]), to);
    }

    /// Gives the slots of a node to another one.
    fn move_all(&self, from: usize, to: usize) {
        let mut servers = self.network.servers.lock().unwrap();
        for slot in 0..16_384 {
            if servers.owner(slot) == Some(from) {
                servers.begin_move(slot, to);
                servers.end_move(slot);
            }
        }
    }

    fn silence(&self, node: usize) {
        self.network.silent.lock().unwrap().insert(ADDRESSES[node].to_owned());
    }
}

impl ScriptClient for Client {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        self.cluster.run(call, within).await
    }

    fn breaker(&self) -> Option<CircuitBreaker> {
        Some(self.breaker.clone())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }

    fn server_of(&self, key: &[u8]) -> Option<(usize, Arc<str>)> {
        let member = self.cluster.member_of(key)?;
        Some((member.number, Arc::clone(&member.name)))
    }
}

#[derive(Clone, Copy, Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.0.elapsed())
    }
}

/// Returns a subject whose keys are on the node that has those of `other`, in another slot.
fn neighbour(client: &Client, limiter: &RedisLimiter<Client>, other: &str) -> String {
    let (keys, owner, _) = client.place(limiter, other);
    let is_beside = |subject: &String| {
        let (own, node, _) = client.place(limiter, subject);
        node == owner && slot(&own[0]) != slot(&keys[0])
    };
    (0..).map(|number| format!("subject-{number}")).find(is_beside).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_limit_holds_while_its_slot_moves() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min");
    assert!(limiter.check("alice").await.unwrap().is_admitted());
    client.begin_move(&limiter, "alice");
    assert!(limiter.check("alice").await.unwrap().is_admitted());
    let (keys, _, to) = client.place(&limiter, "alice");
    client.network.servers.lock().unwrap().move_key(&keys[0]);
    // The node that it moves to has it, and no other one says so yet.
    assert!(limiter.check("alice").await.unwrap().is_admitted());
    assert!(!limiter.check("alice").await.unwrap().is_admitted());
    client.network.servers.lock().unwrap().end_move(slot(&keys[0]));
    assert!(!limiter.check("alice").await.unwrap().is_admitted());
    assert_eq!(client.place(&limiter, "alice").1, to);
}

/// A call with several keys of which one is absent gets TRYAGAIN until the move has ended. These limits have one.
#[tokio::test(start_paused = true)]
async fn several_limits_hold_while_their_slot_moves() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min, 20/h");
    assert!(limiter.check("alice").await.unwrap().is_admitted());
    let (keys, ..) = client.place(&limiter, "alice");
    client.begin_move(&limiter, "alice");
    client.network.servers.lock().unwrap().move_key(&keys[0]);
    for _ in 0..2 {
        assert!(limiter.check("alice").await.unwrap().is_admitted());
    }
    assert!(!limiter.check("alice").await.unwrap().is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_refund_by_gcra_holds_while_its_slot_moves() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min");
    let reserved = limiter.reserve("alice", limiter_core::Cost::ONE, Duration::ZERO).await.unwrap();
    client.begin_move(&limiter, "alice");
    let returned = limiter.refund(reserved.into_receipt().unwrap()).await.unwrap();
    assert_eq!(returned, 1);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_moves_leaves_the_others_of_its_node_limited() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min, 20/h by sliding-log");
    let beside = neighbour(&client, &limiter, "alice");
    for _ in 0..3 {
        assert!(limiter.check(&*beside).await.unwrap().is_admitted());
    }
    assert!(limiter.check("alice").await.unwrap().is_admitted());
    let (keys, ..) = client.place(&limiter, "alice");
    client.begin_move(&limiter, "alice");
    client.network.servers.lock().unwrap().move_key(&keys[0]);
    for _ in 0..10 {
        for _ in 0..FAILURES {
            assert!(limiter.check("alice").await.is_err(), "the slot moves");
            tokio::time::advance(Duration::from_millis(30)).await;
        }
        assert!(!limiter.check(&*beside).await.unwrap().is_admitted());
    }
    assert_eq!(limiter.counters().short_circuited, 0);
}

/// The node that has the slot has replied, by naming the other one.
#[tokio::test(start_paused = true)]
async fn a_silent_node_is_not_blamed_on_the_one_that_redirects_to_it() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min");
    let beside = neighbour(&client, &limiter, "alice");
    client.begin_move(&limiter, "alice");
    client.silence(client.place(&limiter, "alice").2);
    for _ in 0..3 {
        assert!(limiter.check(&*beside).await.unwrap().is_admitted());
    }
    for _ in 0..10 {
        for _ in 0..FAILURES {
            assert!(limiter.check("alice").await.is_err(), "its new node is silent");
        }
        assert!(!limiter.check(&*beside).await.unwrap().is_admitted());
    }
    assert_eq!(limiter.counters().short_circuited, 0);
}

/// The errors of requests in flight named no node.
#[tokio::test(start_paused = true)]
async fn errors_name_the_node() {
    let client = Client::new().await;
    let limiter = client.limiter("3/min");
    let in_flight = limiter.in_flight("uploads", 3).unwrap();
    let (keys, owner, _) = client.place(&limiter, "alice");
    for key in [&keys[0], &in_flight.stored_key("alice").unwrap()] {
        client.network.execute(ADDRESSES[owner], &[b"SET", key, b"foreign"]);
    }
    let errors = [
        limiter.check("alice").await.unwrap_err(),
        in_flight.enter("alice").await.unwrap_err(),
        in_flight.peek("alice").await.unwrap_err(),
    ];
    for error in errors {
        let error = error.to_string();
        assert!(error.contains(&format!("Redis at {}: ", ADDRESSES[owner])), "{error}");
    }
}

/// Its breaker stayed open and its outage went on for ever, so that each check of any key asked for both.
#[tokio::test(start_paused = true)]
async fn a_node_that_fails_and_is_removed_is_forgotten() {
    let log = Log::start();
    let client = Client::new().await;
    let limiter = client.limiter("3/min");
    let is_removable = |subject: &String| client.place(&limiter, subject).1 > 0;
    let subject = (0..).map(|number| format!("subject-{number}")).find(is_removable).unwrap();
    let (_, removed, other) = client.place(&limiter, &subject);
    client.silence(removed);
    while limiter.counters().breaker_opened == 0 {
        assert!(limiter.check(&*subject).await.is_err());
    }
    client.move_all(removed, other);
    while limiter.check(&*subject).await.is_err() {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    assert_eq!(limiter.counters().breaker_closed, 1);
    assert!(format!("{:?}", client.breaker).contains("open: 0"), "{:?}", client.breaker);
    let end = format!("the store decides again policy=\"test\" node=\"{}\"", ADDRESSES[removed]);
    let lines = log.lines();
    assert!(lines.iter().any(|line| line.contains(&end)), "{lines:?}");
}
