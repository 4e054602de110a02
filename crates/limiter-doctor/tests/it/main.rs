//! The command against a real server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod arguments;
mod blocks;
mod explain;
mod in_flight;
mod report;
mod reset;
mod scripts;
mod sessions;
mod subjects;
mod top;

use std::{
    ffi::OsStr,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use limiter_core::{Cost, Key, Policy};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::Server;

/// What the command printed, and its exit code.
#[derive(Debug)]
struct Printed {
    code: i32,
    out: String,
    err: String,
}

impl Printed {
    /// Returns the keys that `reset` has deleted.
    fn deleted(&self) -> Vec<String> {
        self.after("Deleted ")
    }

    /// Returns what follows in each line that begins so.
    fn after(&self, begin: &str) -> Vec<String> {
        self.out.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    }
}

/// Runs the command on a server.
fn doctor(server: &Server, arguments: &[&str]) -> Printed {
    run(&[&["--url", &server.url()], arguments].concat(), &[], "")
}

/// Runs the command with environment variables and a standard input.
fn run(
    arguments: &[impl AsRef<OsStr>],
    variables: &[(&str, &str)],
    stdin: impl AsRef<[u8]>,
) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limiter-doctor"));
    command.env_remove("REDIS_URL").env_remove("LIMITER_KEY_SECRET");
    command.args(arguments).envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read it may have ended.
    drop(child.stdin.take().unwrap().write_all(stdin.as_ref()));
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Printed {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Returns a limiter of one limit, or of several with their names, such as `burst=5/s, hourly=100/h`.
async fn limiter(server: &Server, name: &str, limits: &str) -> RedisLimiter {
    let limits: Vec<_> = limits.split(", ").collect();
    let policy = match limits.as_slice() {
        [limit] => Policy::parse(name, limit),
        limits => {
            let limits = limits.iter().map(|limit| {
                let (name, limit) = limit.split_once('=').unwrap();
                Policy::parse(name, limit).unwrap()
            });
            Policy::all_of(name, limits)
        }
    };
    let connection = connect(&server.url()).await.unwrap();
    let builder = RedisLimiter::builder(policy.unwrap());
    let builder = builder.deadline(Duration::from_secs(5)).key_secret(SECRET);
    builder.build_on(connection).unwrap()
}

const SECRET: &str = "a secret that all processes share";

/// Returns the server's time, in microseconds.
fn now(server: &Server) -> u64 {
    let reply = server.command(&["TIME"]).unwrap();
    reply.lines().nth(2).unwrap().parse::<u64>().unwrap() * 1_000_000
}

/// Takes permits, one call for each.
async fn take<'a>(limiter: &RedisLimiter, key: impl Into<Key<'a>>, permits: u32) {
    let key = key.into();
    for _ in 0..permits {
        assert!(limiter.check_n(&key, Cost::ONE).await.unwrap().is_admitted());
    }
}

/// A file with limits, which is deleted with it.
struct LimitsFile(String);

impl LimitsFile {
    fn new(name: &str, limits: &str) -> Self {
        let file = format!("limiter-doctor-limits-{name}-{}.toml", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, limits).unwrap();
        Self(file.to_str().unwrap().to_owned())
    }
}

impl Drop for LimitsFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
