//! A real server whose scripts read the time that a test sets.

use std::{
    process, slice,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use futures::future::try_join_all;
use limiter_core::{
    Algorithm, Cost, Decision, Error, LimiterFuture, Policy, Receipt, Reservation, Timestamp, Usage,
};
use limiter_rig::server::{self, Cluster};
use limiter_test::subject::{Operations, Subject};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::{ConnectOptions, Connection, RedisLimiter, ScriptClient, connect_with, scripts};

/// Precedes the text that reads the clock: the time is read from a key, of several the one that this node of a cluster
/// has, and states live an hour longer, since the server's own clock moves on while the test's does not
/// still.
const CLOCK: &str = "
local server = redis
local function run(call, command, ...)
  local arguments = {...}
  if command == 'TIME' then
    for _, clock in ipairs({ CLOCKS }) do
      local now = server.pcall('GET', clock)
      if type(now) == 'string' then
        return { string.sub(now, 1, -7), string.sub(now, -6) }
      end
    end
  end
  local life = command == 'SET' and arguments[3] == 'PX' and 4 or command == 'PEXPIRE' and 2
  if life then
    arguments[life] = string.format('%.0f', arguments[life] + 3600000)
  end
  return call(command, unpack(arguments))
end
local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}
";

/// The server's time at a test's zero: with as many digits as a real one, at a day's start, so that
/// windows by the clock begin where they do for the limiter in memory.
pub(super) const EPOCH: Duration = Duration::from_secs(19_700 * 86_400);

/// A connection to the server that all tests share, or to a cluster, and a clock of its own.
pub(super) struct Store<C = Connection> {
    runtime: Runtime,
    client: C,
    clock: Clock,
    process: ProcessClock,
}

/// The monotonic clock of this process in tests: it moves forward as the server's clock does, and never back.
#[derive(Clone, Debug)]
pub(crate) struct ProcessClock(Arc<Mutex<(Timestamp, Timestamp)>>);

impl ProcessClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Timestamp::from_nanos(7_000), Timestamp::ZERO))))
    }

    /// Follows the server's clock.
    fn follow(&self, server: Timestamp) {
        let mut clock = self.0.lock().unwrap();
        let passed = server.saturating_since(clock.1);
        *clock = (clock.0.saturating_add(passed), server);
    }
}

impl limiter_core::Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }
}

enum Clock {
    OfServer {
        client: Client,
        key: String,
    },
    /// A key on each node.
    OfCluster {
        cluster: Cluster,
        keys: Vec<String>,
    },
}

impl Store {
    pub(super) fn new() -> Arc<Self> {
        Self::with(async |url| {
            let options = ConnectOptions::new().with_runtime(Handle::current());
            connect_with(url, &options).await.unwrap()
        })
    }

    /// Returns a cluster of its own.
    pub(super) fn on_cluster() -> Arc<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = Cluster::start();
        let client = runtime.block_on(connect_with(&cluster.url(), &on(&runtime))).unwrap();
        let key_on = |node: usize| {
            let mut keys = (0..).map(|number| format!("clock-{number}"));
            keys.find(|key| cluster.owner(cluster.slot_of(key)) == node).unwrap()
        };
        let keys = (0..3).map(key_on).collect();
        let clock = Clock::OfCluster { cluster, keys };
        Arc::new(Self { runtime, client, clock, process: ProcessClock::new() })
    }
}

impl<C: ScriptClient> Store<C> {
    /// Returns the server that all tests share, by a client that `connect` returns for its address.
    pub(super) fn with(connect: impl AsyncFnOnce(&str) -> C) -> Arc<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = server::shared_url();
        let own = Client::new(Config::from_url(&url).unwrap(), None, None, None);
        drop(runtime.block_on(own.init()).unwrap());
        let clock = Clock::OfServer { client: own, key: format!("{}:clock", unique()) };
        let client = runtime.block_on(connect(&url));
        Arc::new(Self { runtime, client, clock, process: ProcessClock::new() })
    }

    /// Returns an unused limiter of `policy`.
    pub(super) fn limiter(self: &Arc<Self>, policy: Policy) -> InRedis<C> {
        self.limiter_for(&[policy])
    }

    /// Returns an unused limiter of the first of several policies that take turns.
    pub(super) fn limiter_for(self: &Arc<Self>, policies: &[Policy]) -> InRedis<C> {
        self.process_of(&unique(), policies, false)
    }

    /// Returns a limiter of those that share a prefix, as a process has it: with leases or without.
    pub(super) fn process_of(
        self: &Arc<Self>,
        prefix: &str,
        policies: &[Policy],
        lease: bool,
    ) -> InRedis<C> {
        let clock = self.clock_of_scripts();
        let epoch = epoch(policies);
        let limiter = RedisLimiter::builder(policies[0].clone())
            .prefix(prefix)
            .server_clock(&clock)
            .clock(self.process.clone())
            .deadline(Duration::from_secs(10))
            // It follows this process's clock.
            .denial_cache(0)
            .lease(lease)
            .build_on(self.client.clone())
            .unwrap();
        let handle = limiter.clone();
        InRedis { store: Arc::clone(self), epoch, limiter, handle }
    }

    /// Returns a limiter that caches so many denials.
    pub(super) fn limiter_of(
        &self,
        prefix: &str,
        policy: &Policy,
        denials: usize,
    ) -> RedisLimiter<C> {
        self.limiter_with(prefix, policy, |builder| builder.denial_cache(denials))
    }

    /// Returns a limiter with more settings.
    pub(super) fn limiter_with(
        &self,
        prefix: &str,
        policy: &Policy,
        settings: impl FnOnce(crate::Builder) -> crate::Builder,
    ) -> RedisLimiter<C> {
        let builder = RedisLimiter::builder(policy.clone())
            .prefix(prefix)
            .server_clock(&self.clock_of_scripts())
            .clock(self.process.clone())
            .deadline(Duration::from_secs(10));
        settings(builder).build_on(self.client.clone()).unwrap()
    }

    pub(super) fn wait_for<T>(&self, future: LimiterFuture<T>) -> Result<T, Error> {
        self.runtime.block_on(future)
    }

    /// Returns what sets the time in the scripts.
    fn clock_of_scripts(&self) -> String {
        let clocks = match &self.clock {
            Clock::OfServer { key, .. } => slice::from_ref(key),
            Clock::OfCluster { keys, .. } => keys,
        };
        let clocks = clocks.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ");
        CLOCK.replace("CLOCKS", &clocks) + scripts::CLOCK
    }

    pub(super) fn command(&self, name: &'static str, arguments: Vec<Value>) -> Value {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let Clock::OfServer { client, .. } = &self.clock else {
            panic!("a cluster is asked node by node");
        };
        self.runtime.block_on(client.custom(command, arguments)).unwrap()
    }

    pub(super) fn set_clock(&self, now: Timestamp) {
        let micros = i64::try_from(now.as_nanos() / 1_000).unwrap();
        match &self.clock {
            Clock::OfServer { key, .. } => {
                self.command("SET", vec![key.as_str().into(), micros.into()]);
            }
            Clock::OfCluster { cluster, keys } => {
                for (node, key) in keys.iter().enumerate() {
                    cluster.node(node).command(&["SET", key, &micros.to_string()]).unwrap();
                }
            }
        }
        // After the server's clock, so that nothing is executed before the time at which it was sent.
        self.process.follow(now);
    }
}

/// A limiter on a server whose clock the test sets.
pub(super) struct InRedis<C: ScriptClient = Connection> {
    store: Arc<Store<C>>,
    /// The server's time at the test's zero.
    epoch: Duration,
    limiter: RedisLimiter<C>,
    /// The handle in use.
    handle: RedisLimiter<C>,
}

impl<C: ScriptClient> InRedis<C> {
    /// Makes checks at the same moment: in one task, which the one that sends them waits for.
    pub(super) fn decide_together(
        &self,
        now: Timestamp,
        checks: &[(String, Cost)],
    ) -> Vec<Decision> {
        self.store.set_clock(now.saturating_add(self.epoch));
        let checks = checks.iter().map(|(key, cost)| self.handle.check_n(key, *cost));
        let all = self.store.runtime.spawn(try_join_all(checks.collect::<Vec<_>>()));
        self.store.runtime.block_on(all).unwrap().unwrap()
    }

    /// Returns what is stored of a key.
    pub(super) fn states(&self, key: &str) -> Vec<Value> {
        let keys = self.limiter.stored_keys(key).unwrap().into_iter();
        let dump = |key: Vec<u8>| self.store.command("DUMP", vec![Value::Bytes(key.into())]);
        keys.map(dump).collect()
    }

    /// Gives the leases back, and ends what is under way.
    pub(super) fn drain(&self, now: Timestamp) {
        self.store.set_clock(now.saturating_add(self.epoch));
        self.store.runtime.block_on(self.limiter.drain(Duration::from_secs(10))).unwrap();
    }

    /// Sets the clock, and awaits an answer.
    fn at<T>(&self, now: Timestamp, ask: impl FnOnce(&RedisLimiter<C>) -> LimiterFuture<T>) -> T {
        self.store.set_clock(now.saturating_add(self.epoch));
        let answer = self.store.runtime.block_on(ask(&self.handle)).unwrap();
        // What was asked for ahead is asked for at this moment.
        while self.limiter.leases.as_ref().is_some_and(|leases| leases.are_asking()) {
            thread::yield_now();
        }
        answer
    }
}

impl<C: ScriptClient> Subject for InRedis<C> {
    fn tick(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.at(now, |limiter| limiter.check_n(key, cost))
    }

    fn switch(&mut self, policy: &Policy) {
        self.handle = self.limiter.with_policy(policy).unwrap();
    }
}

impl<C: ScriptClient> Operations for InRedis<C> {
    fn policy(&self) -> Policy {
        self.handle.policy().clone()
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.at(now, |limiter| limiter.peek(key))
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.at(now, |limiter| limiter.reserve(key, cost, within))
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.at(now, |limiter| limiter.take_up_to(key, most))
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.at(now, |limiter| limiter.charge(key, cost))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        self.at(now, |limiter| limiter.refund(receipt))
    }

    fn reset(&mut self, now: Timestamp, key: &str) {
        self.at(now, |limiter| limiter.reset(key));
    }
}

/// Returns a time of the server for a test's zero at which windows by the clock and slots begin, as
/// they do for the limiter in memory.
fn epoch(policies: &[Policy]) -> Duration {
    let mut common = 1;
    for limit in policies.iter().flat_map(Policy::limits) {
        let window = limit.quota().window().as_micros();
        let whole = match limit.algorithm() {
            Algorithm::SubWindows(slots) => {
                let number = u128::from(slots.number());
                window.div_ceil(number) * number
            }
            Algorithm::AlignedWindow => window,
            _ => 1,
        };
        common = common / gcd(common, whole) * whole;
    }
    let epoch = EPOCH.as_micros().next_multiple_of(common);
    // Of windows that have little in common, that may be later than a clock can show.
    let in_reach = u64::try_from(epoch).ok().filter(|epoch| *epoch < 1 << 52);
    in_reach.map_or(EPOCH, Duration::from_micros)
}

fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Returns options for a connection on `runtime`.
pub(super) fn on(runtime: &Runtime) -> ConnectOptions {
    ConnectOptions::new().with_runtime(runtime.handle().clone())
}

/// Returns a name that no one else has.
pub(super) fn unique() -> String {
    // The time, because process ids return, and a server may have run for longer.
    static RUN: LazyLock<u128> = LazyLock::new(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}-{}", process::id(), *RUN, COUNT.fetch_add(1, Ordering::Relaxed))
}
