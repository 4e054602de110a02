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
use limiter_rig::server::{Cluster, Server};

/// What the command printed, and its exit code.
#[derive(Debug)]
struct Printed {
    code: i32,
    out: String,
    err: String,
}

impl Printed {
    /// Asserts the exit code, and that each of these texts was printed, or was not if it begins with `!`.
    #[track_caller]
    fn has<const N: usize>(&self, code: i32, texts: [&str; N]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in texts {
            let (text, is_there) = match text.strip_prefix('!') {
                Some(text) => (text, false),
                None => (text, true),
            };
            assert_eq!(self.out.contains(text), is_there, "{text:?}: {self:?}");
        }
    }

    /// Asserts the exit code, and how what was printed begins.
    #[track_caller]
    fn begins(&self, code: i32, text: &str) {
        assert!(self.code == code && self.out.starts_with(text), "{text:?}: {self:?}");
    }

    /// Asserts the exit code of an error, that nothing was printed, and a part of the message.
    #[track_caller]
    fn fails(&self, code: i32, message: &str) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        assert!(self.err.contains(message), "{message:?}: {self:?}");
    }

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
    limiter_at(&server.url(), policy.unwrap()).await
}

async fn limiter_at(url: &str, policy: Policy) -> RedisLimiter {
    let builder = RedisLimiter::builder(policy).deadline(Duration::from_secs(5));
    builder.key_secret(SECRET).build_on(connect(url).await.unwrap()).unwrap()
}

/// Returns a limiter on a cluster.
async fn clustered(cluster: &Cluster, name: &str, limit: &str) -> RedisLimiter {
    limiter_at(&cluster.url(), Policy::parse(name, limit).unwrap()).await
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

/// A file, which is deleted with it.
struct TempFile(String);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let file = format!("limiter-doctor-{name}-{}", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, text).unwrap();
        Self(file.to_str().unwrap().to_owned())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
