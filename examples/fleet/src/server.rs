//! A server of the program's own, and how many calls a server has received.

use std::{
    env, fs,
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use redis::{Client, Connection};

const READY_WITHIN: Duration = Duration::from_secs(10);

const MISSING: &str = "install one, such as the package redis-server or valkey-server of your system, set \
    LIMITER_SERVER to the path of a binary, or set REDIS_URL to the address of a server that runs";

/// A server on a free port of the loopback address, without persistence. It ends when it is dropped, and when
/// the program ends.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    guard: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = env::temp_dir().join(format!("limiter-fleet-{}", process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut process =
            spawn(port, &folder).inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let guard = guard(&process, &folder).inspect_err(|_| end(&mut process));
        let mut server = Self { process, guard: guard?, port };
        server.wait(&folder.join("server.log"))?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Waits until the server answers.
    fn wait(&mut self, log: &Path) -> Result<()> {
        let start = Instant::now();
        let failed = loop {
            match Calls::connect(&self.url()) {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > READY_WITHIN => break error.to_string(),
                Err(_) => {}
            }
            if let Some(status) = self.process.try_wait()? {
                break format!("ended at once: {status}");
            }
            thread::sleep(Duration::from_millis(10));
        };
        bail!("the server {failed}; its log:\n{}", fs::read_to_string(log).unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its input ends with it, so it ends the server and removes the folder.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = self.process.wait();
    }
}

/// Starts the first binary that there is.
fn spawn(port: u16, folder: &Path) -> Result<Child> {
    let named = env::var_os("LIMITER_SERVER").map(PathBuf::from);
    let names = match &named {
        Some(path) => vec![path.clone()],
        None => vec!["redis-server".into(), "valkey-server".into()],
    };
    for name in names {
        let log = fs::File::create(folder.join("server.log"))?;
        let spawned = Command::new(&name)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn();
        match spawned {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            spawned => return spawned.with_context(|| name.display().to_string()),
        }
    }
    match named {
        Some(path) => bail!("LIMITER_SERVER is {path:?}, which is not there: {MISSING}"),
        None => bail!("neither redis-server nor valkey-server is on the PATH: {MISSING}"),
    }
}

/// Starts a shell that ends the server and removes its folder when this program ends, even if it is interrupted
/// or killed.
fn guard(server: &Child, folder: &Path) -> Result<Child> {
    let script = r#"trap "" HUP INT TERM; read -r line; kill -KILL "$1" 2> /dev/null; rm -rf "$2""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "guard", &server.id().to_string()]).arg(folder);
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?)
}

fn end(process: &mut Child) {
    // An error means that it has ended already.
    let _ = process.kill();
    let _ = process.wait();
}

/// Counts the calls of scripts that a server receives.
pub(crate) struct Calls {
    connection: Connection,
    before: u64,
}

impl Calls {
    pub(crate) fn connect(url: &str) -> Result<Self> {
        let connection = Client::open(url)?.get_connection_with_timeout(READY_WITHIN)?;
        connection.set_read_timeout(Some(READY_WITHIN))?;
        let mut calls = Self { connection, before: 0 };
        calls.begin()?;
        Ok(calls)
    }

    /// Counts from 0 on.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.before = self.all()?;
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Result<u64> {
        Ok(self.all()?.saturating_sub(self.before))
    }

    fn all(&mut self) -> Result<u64> {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
        let calls =
            |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        Ok(lines.filter_map(calls).sum())
    }
}
