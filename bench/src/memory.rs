//! How many bytes a key takes in the server.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use limiter_core::{Cost, Error, Policy, Quota};
use limiter_redis::RedisLimiter;

use crate::{
    Bench,
    capture::Captured,
    fred_client::WITHIN,
    subjects::{self, NAME, WINDOW},
    table::Table,
};

use Fill::{Checks, Slots};

/// The length of a key's name.
const NAME_BYTES: usize = 22;

/// A policy, and how a key gets its state.
struct Row {
    name: String,
    policy: Policy,
    fill: Fill,
    /// As measured on Redis 7.0.15 by hand-written states.
    expected: u64,
}

enum Fill {
    /// By so many checks.
    Checks(usize),
    /// By checks for as long as a window and a slot last.
    Slots,
}

/// Prints the bytes of a key by each algorithm.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    println!(
        "**Memory** of a key of {NAME_BYTES} bytes by MEMORY USAGE, which leaves out the entry for its \
         expiry, some 30 bytes; beside what is expected on Redis 7.0.15.\n"
    );
    let mut table = Table::new(&["algorithm", "bytes", "expected"]);
    let mut refused = Vec::new();
    for (index, row) in rows()?.into_iter().enumerate() {
        let prefix = format!("m{index:02}");
        match Captured::new(&row.policy, &prefix) {
            Ok(captured) => {
                let bytes = measure(bench, &row, &prefix, &captured);
                let bytes = bytes.with_context(|| row.name.clone())?;
                table.row([row.name, bytes.to_string(), row.expected.to_string()]);
            }
            Err(error) => {
                eprintln!("{}: {error}", row.name);
                refused.push(row.name);
            }
        }
    }
    table.print();
    if !refused.is_empty() {
        println!("Not there through Redis: {}.\n", refused.join("; "));
    }
    Ok(())
}

fn rows() -> Result<Vec<Row>, Error> {
    let row = |name: &str, policy: Result<Policy, Error>, fill, expected| {
        policy.map(|policy| Row { name: name.to_owned(), policy, fill, expected })
    };
    let hourly = Quota::per_hour(2_000)?;
    let mut rows = vec![
        row("GCRA", Policy::gcra(NAME, hourly), Checks(1), 72),
        row("GCRA, with a remainder", Policy::gcra(NAME, Quota::per_hour(97)?), Checks(1), 104),
        row("leaky queue", Policy::leaky_queue(NAME, 50, hourly), Checks(1), 72),
        row("fixed window", Policy::fixed_window(NAME, hourly), Checks(1), 72),
        row("sliding counter", Policy::sliding_counter(NAME, hourly), Checks(1), 120),
    ];
    for slots in [10, 60, 1_000] {
        let policy = subjects::sub_windows(Quota::per(100_000, WINDOW)?, slots);
        let name = format!("sub-windows, {slots} slots");
        rows.push(row(&name, policy, Slots, u64::from(16 * slots + 60)));
    }
    for entries in [100_u16, 1_000] {
        let name = format!("log, {entries} entries");
        let checks = Checks(usize::from(entries));
        rows.push(row(
            &name,
            Policy::sliding_log(NAME, hourly),
            checks,
            u64::from(entries) * 102 / 10,
        ));
    }
    for limits in [2, 4, 8] {
        let name = format!("{limits} limits");
        rows.push(row(&name, subjects::several(limits), Checks(1), 104 + 20 * limits));
    }
    rows.into_iter().collect()
}

fn measure(bench: &Bench, row: &Row, prefix: &str, captured: &Captured) -> Result<u64> {
    let key = subjects::key(0);
    bench.runtime.block_on(async {
        let connection = limiter_redis::connect(&bench.host.url()).await?;
        let limiter = RedisLimiter::new(connection, row.policy.clone())?
            .with_prefix(prefix)?
            .with_deadline(WITHIN)?;
        let (mut checks, start) = (0, Instant::now());
        while match row.fill {
            Checks(number) => checks < number,
            Slots => start.elapsed() < WINDOW * 11 / 10,
        } {
            let decision = limiter.try_acquire(&key, Cost::ONE).await?;
            ensure!(decision.is_admitted(), "the check {checks} was refused");
            checks += 1;
        }
        Ok(())
    })?;
    let name = String::from_utf8(captured.call(&key)?.key)?;
    ensure!(name.len() == NAME_BYTES, "the key {name:?} has {} bytes", name.len());
    let reply = bench.host.command(&["MEMORY", "USAGE", &name, "SAMPLES", "0"])?;
    let bytes = reply.strip_prefix(':').and_then(|bytes| bytes.parse().ok());
    bytes.with_context(|| format!("MEMORY USAGE {name:?} replied {reply:?}"))
}
