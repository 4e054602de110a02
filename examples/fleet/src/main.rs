//! A fleet of processes that share one limit through Redis, and take permits from it in bulk.
//!
//! ```console
//! $ cargo run --release -p example-fleet
//! ...
//! admitted  214271 of 399968 checks, 100.0 % of them from leases
//! bound     220088: a burst of 20000, and 20000/s for 10.004 s
//! used      97.4 % of the bound
//! calls     673 to the server
//! trips     0.0031 an admission
//! permits   214559 in 669 leases: 290 unused, 0 returned
//! $ cargo run --release -p example-fleet -- --no-leases
//! ...
//! calls     269183 to the server
//! trips     1.2236 an admission
//! ```
//!
//! `--help` lists the options.
//!
//! The program starts a Redis or Valkey server of its own: the binary that `LIMITER_SERVER` names, else
//! `redis-server` or `valkey-server` on the `PATH`. `REDIS_URL` sets the address of another server, which no
//! other program should use meanwhile: its calls would be counted too.
//!
//! Then it starts itself again, once for each process of the fleet. Each process checks the same key, and all
//! together try twice the limit. The program shows how many checks are admitted and how many calls they cost,
//! and fails if the fleet exceeds its limit. How a process takes leases is in [`process`].

mod display;
mod fleet;
mod options;
mod process;
mod server;
mod totals;

use std::{
    env,
    io::{self, Write},
    process::{ExitCode, id},
};

use anyhow::{Context, Result};

use crate::{
    display::Display,
    fleet::Fleet,
    options::{Options, USAGE},
    server::{Calls, Server},
};

fn main() -> Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.as_slice() {
        [first, key, options @ ..] if first == "process" => {
            process::run(key, &Options::parse(options)?)?;
            Ok(ExitCode::SUCCESS)
        }
        [only] if only == "--help" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        words => show(words),
    }
}

/// Runs a fleet, and returns success if it stayed within the limit.
fn show(words: &[String]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    // Dropped last, when no process needs the server any more.
    let (_server, url) = match env::var("REDIS_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = Server::start()?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let mut calls = Calls::connect(&url).context("no connection to the server")?;
    // Each run has a key of its own, so that it begins with the whole burst.
    let mut fleet = Fleet::start(words, &options, &url, &format!("run-{}", id()))?;

    calls.begin()?;
    let mut display = Display::new(&options);
    fleet.begin()?;
    while let Some(change) = fleet.wait(display.next())? {
        display.update(&change);
        if display.is_due() {
            display.draw(calls.read()?)?;
        }
    }
    let calls = calls.read()?;
    display.draw(calls)?;
    let (summary, is_within) = display.summary(calls);
    io::stdout().write_all(summary.as_bytes())?;
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
