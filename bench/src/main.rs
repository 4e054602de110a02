//! How fast limits through Redis are, and how much memory they take, measured as it is printed.
//!
//! `cargo xtask bench` runs it, and names the server's binary in `LIMITER_SERVER`.

mod capture;
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

/// What all parts need.
struct Bench {
    host: Host,
    runtime: Runtime,
    effort: Effort,
}

/// How long to measure: `rounds` times, in each of which all that is compared has its turn.
struct Effort {
    rounds: usize,
    /// A turn of a script.
    script: Duration,
    /// A turn of a client.
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
        _ => bail!("{arguments:?}: use redis, redis --quick or redis-memory"),
    };
    let host = Host::start()?;
    // Pinned by now, and its threads with it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bench = Bench { host, runtime, effort };
    println!("Printed by `cargo xtask bench {}`.", arguments.join(" "));
    bench.host.describe()?;
    if speed {
        server_side::table(&bench)?;
        bench.host.forget_all()?;
        client_side::table(&bench)?;
        bench.host.forget_all()?;
        local::table(&bench)
    } else {
        memory::table(&bench)
    }
}
