//! Any text in place of a stored number: scripts decide whatever they find.

#![no_main]

use std::{
    future::Future,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use limiter_core::{Policy, Quota};
use limiter_double::{Reply, Server};
use limiter_redis::{CallError, Fault, RedisLimiter, ScriptCall, ScriptClient, ScriptReply};
use tokio::runtime::{Builder, Runtime};

/// Microseconds of Unix time.
const NOW: i64 = 1_702_080_000_000_000;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

static CLIENT: LazyLock<Client> = LazyLock::new(|| Client(Arc::default()));

/// A client of a server in this process.
#[derive(Clone)]
struct Client(Arc<Mutex<Server>>);

impl Client {
    fn execute(&self, words: &[&str]) -> Reply {
        self.0.lock().expect("no panic").execute(words, NOW)
    }
}

impl ScriptClient for Client {
    async fn run(&self, call: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        let words: Vec<String> =
            call.args().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        match self.execute(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
            Reply::Error(error) if error.starts_with("NOSCRIPT") => {
                Err(CallError::new(Fault::NoScript, error))
            }
            Reply::Error(error) => panic!("{error}"),
            reply => Ok(read(reply)),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(RUNTIME.spawn(task));
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        let _context = RUNTIME.enter();
        tokio::time::sleep(time)
    }
}

fn read(reply: Reply) -> ScriptReply {
    match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8_lossy(&text).into_owned()),
        Reply::Array(replies) => ScriptReply::Array(replies.into_iter().map(read).collect()),
        Reply::Nil | Reply::Error(_) => ScriptReply::Nil,
    }
}

fuzz_target!(|text: &str| {
    let hourly = Quota::per_hour(100);
    for policy in [
        Policy::gcra("fuzz", hourly),
        Policy::fixed_window("fuzz", hourly),
        Policy::sliding_counter("fuzz", hourly),
        Policy::sliding_log("fuzz", hourly),
    ] {
        let client = &*CLIENT;
        client.execute(&["FLUSHALL"]);
        let builder = RedisLimiter::builder(policy).denial_cache(0);
        let limiter = builder.build_on(client.clone()).expect("valid settings");
        let check = || {
            let decision = RUNTIME.block_on(limiter.check("alice"));
            decision.expect("a script decides whatever it finds").remaining()
        };
        assert!(check() < 100);
        for key in limiter.stored_keys("alice").expect("the key is not secret") {
            let key = String::from_utf8(key).expect("a key is text");
            match client.execute(&["HKEYS", &key]) {
                Reply::Array(fields) => fields.into_iter().for_each(|field| {
                    if let Reply::Bulk(field) = field {
                        let field = String::from_utf8(field).expect("a field is text");
                        client.execute(&["HSET", &key, &field, text]);
                    }
                }),
                _ => drop(client.execute(&["LSET", &key, "0", text])),
            }
        }
        // The text may be a state that is used up.
        assert!(check() < 100);
    }
});
