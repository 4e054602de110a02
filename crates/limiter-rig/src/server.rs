//! A Redis or Valkey server of one's own, on loopback.
//!
//! Tests that pause, restart or reconfigure the server start their own with [`Server::start`];
//! all others share the one behind [`shared_url`] and keep apart by their keys. `cargo xtask test`
//! provides for both: it names the binary in `LIMITER_SERVER` and the shared server in
//! `LIMITER_TEST_URL`.
//!
//! ```no_run
//! let server = limiter_rig::server::Server::start();
//! assert_eq!(server.command(&["PING"])?, "+PONG");
//! server.pause();
//! assert!(server.command(&["PING"]).is_err());
//! # Ok::<(), std::io::Error>(())
//! ```

mod cluster;
mod process;
mod resp;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;

pub use cluster::{Cluster, Move};
pub use process::Folder;
pub use sentinel::Sentinels;
#[cfg(feature = "tls")]
pub use tls::{Issuer, Tls};

use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::net::TcpListener;
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use process::Process;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long one read of a command's reply may take.
const REPLY_WITHIN: Duration = Duration::from_secs(5);
/// How many ports are tried before a start is given up.
const PORTS_TRIED: usize = 5;

/// A server process without persistence, that ends and leaves nothing behind when dropped.
#[derive(Debug)]
pub struct Server {
    // Before the folder: the fields are dropped in this order, and the process writes there.
    process: Process,
    folder: Folder,
    binary: PathBuf,
    arguments: Vec<String>,
    port: u16,
    tls_port: Option<u16>,
}

impl Server {
    /// Starts the server that [`binary`] finds.
    ///
    /// # Panics
    ///
    /// When there is no such binary, saying how to get one, or when it does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts the server that [`binary`] finds, with further arguments, such as
    /// `["--maxmemory", "2mb"]`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_with(extra: &[&str]) -> Self {
        let started = binary().and_then(|binary| Self::spawn(&binary, extra));
        match started {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts `binary` on a free port and returns once it answers.
    ///
    /// # Errors
    ///
    /// When the binary can't be run, ends, or does not answer within a minute; the error
    /// quotes the end of the server's log.
    pub fn spawn(binary: &Path, extra: &[&str]) -> io::Result<Self> {
        Self::spawn_as(binary, |port, _| {
            let port = port.to_string();
            let own = ["--port", &port, "--bind", "127.0.0.1", "--daemonize", "no"];
            let memory_only = ["--save", "", "--appendonly", "no"];
            // The caller's come last: of two values for an option, the server takes the last.
            Ok(own.iter().chain(&memory_only).chain(extra).map(ToString::to_string).collect())
        })
    }

    /// Starts `binary` on a free port, with the arguments that `arguments` makes of the port and
    /// the folder, and returns once it answers.
    fn spawn_as(
        binary: &Path,
        arguments: impl Fn(u16, &Folder) -> io::Result<Vec<String>>,
    ) -> io::Result<Self> {
        // Absolute, since the server runs in a folder of its own; not canonical, since
        // Debian's `redis-server` is a link to `redis-check-rdb` and goes by the name used.
        let binary = path::absolute(binary)?;
        for _ in 1..PORTS_TRIED {
            match Self::spawn_on(free_port()?, &binary, &arguments) {
                // Between choosing the port and using it, somebody else took it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Self::spawn_on(free_port()?, &binary, &arguments)
    }

    /// The address in the form that clients take: `redis://127.0.0.1:PORT`, or with `rediss` of a
    /// server that encrypts.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis{}://127.0.0.1:{}", self.encrypted(), self.public_port())
    }

    /// The port on 127.0.0.1 by which clients, and other servers, reach it: [`port`](Self::port),
    /// or another one if it encrypts.
    #[must_use]
    pub fn public_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// What the scheme of an address has behind `redis`.
    fn encrypted(&self) -> &'static str {
        if self.tls_port.is_some() { "s" } else { "" }
    }

    /// The port on 127.0.0.1 that is not encrypted.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id, another one after each [`restart`](Self::restart).
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process where it is: connections are accepted, nothing answers.
    ///
    /// # Panics
    ///
    /// When the signal can't be sent.
    pub fn pause(&self) {
        self.process.signal("STOP").expect("the server can be paused");
    }

    /// Lets a paused process go on. It answers what was sent meanwhile.
    ///
    /// # Panics
    ///
    /// When the signal can't be sent.
    pub fn resume(&self) {
        self.process.signal("CONT").expect("the server can be resumed");
    }

    /// Kills the process, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills the process, as a crash would, and starts it again on the same port, without data,
    /// scripts and settings made by command.
    ///
    /// # Panics
    ///
    /// When it does not start again.
    pub fn restart(&mut self) {
        self.process.kill();
        let restarted = run(&self.binary, &self.arguments, &self.folder, self.port);
        self.process = restarted.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sends a command over a connection of its own and returns the reply as it came, without the
    /// final line end: `+OK`, `:3`, or `$5`, a line end and `hello`.
    ///
    /// # Errors
    ///
    /// An error reply, with its text (`NOSCRIPT ...`); no connection; no reply within a second.
    pub fn command(&self, words: &[&str]) -> io::Result<String> {
        resp::call(self.port, words, REPLY_WITHIN)
    }

    fn spawn_on(
        port: u16,
        binary: &Path,
        arguments: &impl Fn(u16, &Folder) -> io::Result<Vec<String>>,
    ) -> io::Result<Self> {
        let folder = Folder::create()?;
        let arguments = arguments(port, &folder)?;
        let process = run(binary, &arguments, &folder, port)?;
        Ok(Self { process, folder, binary: binary.to_owned(), arguments, port, tls_port: None })
    }
}

/// Waits until `holds`.
///
/// # Panics
///
/// When it does not come to hold.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + READY_WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "not in {READY_WITHIN:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The server that all tests share which don't disturb it, from `LIMITER_TEST_URL`.
///
/// There is no fallback that starts one: a process in a static would outlive the tests.
///
/// # Panics
///
/// When the variable is not set. A test without its server fails, it is not skipped.
#[must_use]
pub fn shared_url() -> String {
    env::var("LIMITER_TEST_URL").unwrap_or_else(|_| {
        panic!(
            "no server to test with: run `cargo xtask test`, which starts one, or start one and \
             name it, as in LIMITER_TEST_URL=redis://127.0.0.1:6379"
        )
    })
}

/// The server binary to use: the one that `LIMITER_SERVER` names, else `valkey-server` or
/// `redis-server` on the `PATH`.
///
/// # Errors
///
/// If no server is found; the message says how to get one.
pub fn binary() -> io::Result<PathBuf> {
    let (found, missing) = match env::var_os("LIMITER_SERVER") {
        Some(name) => (on_path(&name), format!("LIMITER_SERVER names no file: {name:?}")),
        None => (
            on_path("valkey-server".as_ref()).or_else(|| on_path("redis-server".as_ref())),
            "neither valkey-server nor redis-server is on the PATH".to_owned(),
        ),
    };
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{missing}: run `cargo xtask test`, which fetches a server, or install one (such \
                 as Debian's redis-server), or set LIMITER_SERVER to the path of a binary"
            ),
        )
    })
}

/// Returns the file that a name on the `PATH`, or an absolute path, stands for.
#[must_use]
pub fn on_path(name: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Joining an absolute path to a folder gives that path, so `name` may be either.
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A port that is free now, below those that systems give to outgoing connections: while a
/// server restarts, no client can come to sit on its port. The port of its cluster bus, 10,000
/// above, is there too.
fn free_port() -> io::Result<u16> {
    let random = (0..100).map(|_| RandomState::new().hash_one(()));
    let mut ports = random.filter_map(|number| u16::try_from(10_000 + number % 12_000).ok());
    ports
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "no free port on 127.0.0.1"))
}

/// Starts the process and waits until it answers.
fn run(binary: &Path, arguments: &[String], folder: &Folder, port: u16) -> io::Result<Process> {
    let failed = |kind: io::ErrorKind, what: String| {
        let log = folder.log_tail();
        let in_use = log.contains("Address already in use");
        let kind = if in_use { io::ErrorKind::AddrInUse } else { kind };
        io::Error::new(kind, format!("{}: {what}\n{log}", binary.display()))
    };
    let mut process = Process::start(binary, arguments, folder)
        .map_err(|error| failed(error.kind(), error.to_string()))?;
    let own_id = format!("process_id:{}\r\n", process.id());

    let deadline = Instant::now() + READY_WITHIN;
    let mut answer = "no answer".to_owned();
    while Instant::now() < deadline {
        if process.has_ended()? {
            return Err(failed(io::ErrorKind::Other, "ended at once; its log:".to_owned()));
        }
        match resp::call(port, &["INFO", "server"], REPLY_WITHIN) {
            // Another server may hold the port, and answer while this one is still failing.
            Ok(info) if info.contains(&own_id) => return Ok(process),
            Ok(_) => answer = "another process answers".to_owned(),
            Err(error) => answer = error.to_string(),
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(failed(
        io::ErrorKind::TimedOut,
        format!("not ready in {READY_WITHIN:?}: {answer}; its log:"),
    ))
}
