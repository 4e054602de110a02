//! A client of a real server whose scripts read the time that a test sets.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter_core::Timestamp;
use limiter_redis::{CallError, ScriptCall, ScriptClient, ScriptReply, scripts};

/// Precedes the text of a script. The server's own clock moves on while the test's does not, so that keys have to live
/// longer.
const CLOCK: &str = "
local server = redis
local function run(call, command, ...)
  local arguments = {...}
  if command == 'TIME' then
    return { 'SECONDS', 'MICROS' }
  end
  if command == 'PEXPIRE' then
    arguments[2] = string.format('%.0f', arguments[2] + LONGER)
  end
  return call(command, unpack(arguments))
end
local redis = {
  call = function(...) return run(server.call, ...) end,
  pcall = function(...) return run(server.pcall, ...) end,
}
";

#[derive(Clone, Debug)]
pub(crate) struct Clocked<C> {
    client: C,
    now: Arc<Mutex<Timestamp>>,
    /// In milliseconds.
    longer: u64,
}

impl<C> Clocked<C> {
    /// Returns a client of the same server, by whose clock keys live so much longer than they should.
    pub(crate) fn new(client: C, longer: Duration) -> Self {
        let longer = u64::try_from(longer.as_millis()).unwrap();
        Self { client, now: Arc::new(Mutex::new(Timestamp::ZERO)), longer }
    }

    pub(crate) fn set(&self, now: Timestamp) {
        *self.now.lock().unwrap() = now;
    }

    /// Returns the text of a script by the test's clock.
    fn text(&self, script: &str) -> String {
        let micros = self.now.lock().unwrap().as_nanos() / 1_000;
        let clock = CLOCK
            .replace("SECONDS", &(micros / 1_000_000).to_string())
            .replace("MICROS", &(micros % 1_000_000).to_string())
            .replace("LONGER", &self.longer.to_string());
        clock + script
    }
}

impl<C: ScriptClient> ScriptClient for Clocked<C> {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, CallError> {
        let digest = String::from_utf8(call.args()[1].to_vec()).unwrap();
        let script = scripts::all().find(|(_, text)| scripts::digest(text) == digest);
        let (_, text) = script.unwrap();
        let mut clocked = ScriptCall::new(&self.text(text), call.keys.clone());
        clocked.arguments.clone_from(&call.arguments);
        self.client.run(&clocked, within).await
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.client.spawn(task);
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.client.sleep(time)
    }

    fn supports_batches(&self) -> bool {
        self.client.supports_batches()
    }
}
