//! Measures how fast limits through Redis are and how many bytes a key takes, and prints tables.
//!
//! `cargo xtask bench redis` and `cargo xtask bench redis-memory` run it, and name the server's binary in
//! `LIMITER_SERVER`.

mod capture;
mod classics;
mod client_side;
mod fred_client;
mod host;
mod lists;
mod local;
mod memory;
mod server_side;
mod subjects;
mod table;
mod targets;
mod wire;

use std::{env, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::runtime::Runtime;

use host::Host;
use subjects::Traffic;
use targets::PAIRS;

/// The server, the runtime of the clients, and how long to measure.
struct Bench {
    host: Host,
    runtime: Runtime,
    effort: Effort,
    /// Texts in the names of the scripts to measure. If there are none, all scripts are measured.
    names: Vec<String>,
}

/// How long to measure.
struct Effort {
    /// Scripts with many keys.
    many: Rounds,
    /// Scripts with few keys, which take longer because each turn begins with a warm-up.
    few: Rounds,
    clients: Rounds,
}

/// In each round, each contender has one turn. A ratio compares two turns of the same round, so that a change
/// of the machine's speed affects both. With short turns, the two are closer in time.
#[derive(Clone, Copy)]
struct Rounds {
    number: usize,
    /// The time of a turn.
    turn: Duration,
}

impl Effort {
    const fn scripts(&self, traffic: Traffic) -> Rounds {
        match traffic {
            Traffic::Many => self.many,
            Traffic::Few => self.few,
        }
    }
}

const FULL: Effort =
    Effort { many: rounds(41, 100), few: rounds(15, 200), clients: rounds(21, 200) };

const QUICK: Effort = Effort { many: rounds(7, 50), few: rounds(3, 100), clients: rounds(3, 80) };

const fn rounds(number: usize, millis: u64) -> Rounds {
    Rounds { number, turn: Duration::from_millis(millis) }
}

/// What to measure.
enum Part {
    /// The speed of scripts and clients.
    Speed,
    /// The speed of scripts.
    Scripts,
    Memory,
    /// The speed of lists of demands.
    Lists,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (mut part, mut effort, mut names) = (None, FULL, Vec::new());
    for argument in &arguments {
        part = Some(match (argument.as_str(), part) {
            ("redis", None) => Part::Speed,
            ("redis-memory", None) => Part::Memory,
            ("--scripts", Some(Part::Speed)) => Part::Scripts,
            ("--lists", Some(Part::Speed)) => Part::Lists,
            ("--quick", Some(part @ (Part::Speed | Part::Scripts | Part::Lists))) => {
                effort = QUICK;
                part
            }
            (name, Some(Part::Scripts)) if !name.starts_with('-') => {
                names.push(name.to_lowercase());
                Part::Scripts
            }
            (other, _) => bail!("unexpected argument `{other}`: use {OPTIONS}"),
        });
    }
    let part = part.with_context(|| format!("no arguments: use {OPTIONS}"))?;
    let host = Host::start()?;
    // Started after the process was pinned, so that its threads are pinned too.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bench = Bench { host, runtime, effort, names };
    println!("Printed by `cargo xtask bench {}`.", arguments.join(" "));
    bench.host.describe()?;
    match part {
        Part::Memory => memory::table(&bench),
        Part::Lists => lists::table(&bench),
        Part::Scripts => {
            let scripts = server_side::measure(&bench)?;
            targets::print(&server_side::ratios(&bench, &scripts)?);
            server_side::print(&bench, &scripts);
            Ok(())
        }
        Part::Speed => {
            let scripts = server_side::measure(&bench)?;
            bench.host.flush()?;
            let clients = client_side::measure(&bench)?;
            bench.host.flush()?;
            let mut ratios = server_side::ratios(&bench, &scripts)?;
            ratios.extend(client_side::ratios(&clients));
            targets::print(&ratios);
            server_side::print(&bench, &scripts);
            client_side::print(&bench, &clients);
            lists::table(&bench)?;
            local::table(&bench)
        }
    }
}

const OPTIONS: &str = "redis [--quick] [--scripts [NAME...] | --lists] | redis-memory";

impl Bench {
    /// Returns whether the script of this name is one of those to measure, or one of them is compared
    /// with it.
    fn measures(&self, script: &str) -> bool {
        self.is_named(script)
            || PAIRS.iter().any(|pair| pair.reference == script && self.is_named(pair.script))
    }

    fn is_named(&self, script: &str) -> bool {
        let script = script.to_lowercase();
        self.names.is_empty() || self.names.iter().any(|name| script.contains(name))
    }
}
