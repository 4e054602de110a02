//! Measures how fast limits through Redis are and how many bytes a key takes, and prints tables.
//!
//! `cargo xtask bench redis` and `cargo xtask bench redis-memory` run it, and name the server's binary in
//! `LIMITER_SERVER`.

mod capture;
mod classics;
mod client_side;
mod fred_client;
mod host;
mod local;
mod memory;
mod server_side;
mod subjects;
mod table;
mod wire;

use std::{env, time::Duration};

use anyhow::{Result, bail};
use tokio::runtime::Runtime;

use host::Host;

/// The server, the runtime of the clients, and how long to measure.
struct Bench {
    host: Host,
    runtime: Runtime,
    effort: Effort,
}

/// How long to measure. In each round, each contender has one turn.
struct Effort {
    rounds: usize,
    /// The time of a script's turn.
    script: Duration,
    /// The time of a client's turn.
    client: Duration,
}

const FULL: Effort =
    Effort { rounds: 9, script: Duration::from_millis(300), client: Duration::from_millis(300) };

const QUICK: Effort =
    Effort { rounds: 3, script: Duration::from_millis(100), client: Duration::from_millis(80) };

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (effort, speed) = match arguments.as_slice() {
        ["redis"] => (FULL, true),
        ["redis", "--quick"] => (QUICK, true),
        ["redis-memory"] => (QUICK, false),
        _ => bail!("invalid arguments {arguments:?}: use redis, redis --quick or redis-memory"),
    };
    let host = Host::start()?;
    // Started after the process was pinned, so that its threads are pinned too.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bench = Bench { host, runtime, effort };
    println!("Printed by `cargo xtask bench {}`.", arguments.join(" "));
    bench.host.describe()?;
    if speed {
        server_side::table(&bench)?;
        bench.host.flush()?;
        client_side::table(&bench)?;
        bench.host.flush()?;
        local::table(&bench)
    } else {
        memory::table(&bench)
    }
}
