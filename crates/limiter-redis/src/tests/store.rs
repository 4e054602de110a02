//! A real server whose scripts tell the time that a test sets.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use limiter_core::{Cost, Decision, Key, Limiter, Policy, Quota, Timestamp};
use limiter_test::{server, subject::Subject};
use tokio::runtime::{Builder, Runtime};

use crate::{Connection, RedisLimiter, connect, script::Script};

/// Takes the prelude's place: `now` comes from a key, and states live an hour longer, since the
/// server's own clock goes on while the test's stands still. How long they were to live is kept.
const PRELUDE: &str = "
local server = redis
local now = tonumber(server.call('GET', 'CLOCK'))
local redis = { call = function(command, ...)
  local arguments = {...}
  if command == 'SET' then
    server.call('SET', arguments[1] .. ':life', arguments[4])
    arguments[4] = arguments[4] + 3600000
  end
  return server.call(command, unpack(arguments))
end }
";

/// The server's time at a test's zero: with as many digits as a real one.
pub(super) const EPOCH: Duration = Duration::from_micros(1_700_000_000_000_123);

/// A connection to the server that all tests share, and a clock of its own.
pub(super) struct Store {
    runtime: Runtime,
    connection: Connection,
    client: Client,
    script: &'static Script,
    clock: String,
}

impl Store {
    pub(super) fn new() -> Arc<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = server::shared_url();
        let connection = runtime.block_on(connect(&url)).unwrap();
        let client = Client::new(Config::from_url(&url).unwrap(), None, None, None);
        drop(runtime.block_on(client.init()).unwrap());
        let clock = format!("{}:clock", unique());
        let prelude = PRELUDE.replace("CLOCK", &clock);
        let script = Script::new(&prelude, include_str!("../scripts/gcra.lua"));
        Arc::new(Self { runtime, connection, client, script: Box::leak(Box::new(script)), clock })
    }

    /// Returns a limiter of `quota` that no one has used.
    pub(super) fn limiter_of(self: &Arc<Self>, quota: Quota) -> InRedis {
        self.limiter(Policy::gcra("test", quota).unwrap())
    }

    /// Returns a limiter of `policy` that no one has used.
    pub(super) fn limiter(self: &Arc<Self>, policy: Policy) -> InRedis {
        let limiter = RedisLimiter::new(self.connection.clone(), policy).unwrap();
        let limiter = limiter.with_prefix(&unique()).unwrap().with_script(self.script);
        let limiter = limiter.with_deadline(Duration::from_secs(10)).unwrap();
        InRedis { store: Arc::clone(self), limiter }
    }

    pub(super) fn command(&self, name: &'static str, arguments: Vec<Value>) -> Value {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        self.runtime.block_on(self.client.custom(command, arguments)).unwrap()
    }

    pub(super) fn set_clock(&self, now: Timestamp) {
        let now = i64::try_from(now.as_nanos() / 1_000).unwrap();
        self.command("SET", vec![self.clock.as_str().into(), now.into()]);
    }
}

/// A limiter on a server whose clock the test sets.
pub(super) struct InRedis {
    store: Arc<Store>,
    limiter: RedisLimiter,
}

impl InRedis {
    pub(super) fn store_key(&self, key: &str) -> Vec<u8> {
        self.limiter.store_key(&Key::from(key))
    }
}

impl Subject for InRedis {
    fn tick(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.store.set_clock(now.saturating_add(EPOCH));
        self.store.runtime.block_on(self.limiter.check(&key.into(), cost)).unwrap()
    }
}

fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
