//! How many bytes a key takes in the server.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_rig::server::Server;
use tokio::runtime::Runtime;

use super::{NAME, WINDOW, WITHIN, key, several, sub_windows};
use crate::rounds::Table;

/// Prints the bytes of a key by each algorithm.
pub(crate) fn print() -> Result<()> {
    let server = super::start()?;
    println!(
        "## Memory\n\nThat of a subject's keys by MEMORY USAGE, which includes their names and leaves out the entries \
         for their expiry, some 30 bytes each.\n"
    );
    let runtime = Runtime::new()?;
    let hourly = Quota::per_hour(2_000);
    let window = Quota::new(100_000, WINDOW)?;
    let mut table = Table::new(["state", "bytes", "of these, name"]);
    // With no number of checks, so many as fill all slots.
    for (name, policy, checks) in [
        ("GCRA", Policy::gcra(NAME, hourly), Some(1)),
        ("leaky queue", Policy::leaky_queue(NAME, 50, hourly), Some(1)),
        ("fixed window", Policy::fixed_window(NAME, hourly), Some(1)),
        ("sliding counter", Policy::sliding_counter(NAME, hourly), Some(1)),
        ("sub-windows, 10 slots", sub_windows(window, 10)?, None),
        ("sub-windows, 60 slots", sub_windows(window, 60)?, None),
        ("log, 100 entries", Policy::sliding_log(NAME, hourly), Some(100)),
        ("log, 1000 entries", Policy::sliding_log(NAME, hourly), Some(1_000)),
        ("2 limits", several(2)?, Some(1)),
        ("4 limits", several(4)?, Some(1)),
        ("8 limits", several(8)?, Some(1)),
    ] {
        let keys = runtime.block_on(fill(&server, &policy, checks)).context(name)?;
        let (mut bytes, mut names) = (0, 0);
        for key in keys {
            let reply = server.command(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?;
            let number = reply.trim().strip_prefix(':').and_then(|it| it.parse::<u64>().ok());
            bytes += number.with_context(|| format!("MEMORY USAGE {key:?}: {reply:?}"))?;
            names += key.len();
        }
        table.row([name.to_owned(), bytes.to_string(), names.to_string()]);
        server.command(&["FLUSHALL"])?;
    }
    println!("{table}");
    Ok(())
}

/// Fills a state by checks, and returns its keys.
async fn fill(server: &Server, policy: &Policy, checks: Option<usize>) -> Result<Vec<String>> {
    let builder = RedisLimiter::builder(policy.clone()).prefix("m00").deadline(WITHIN);
    let limiter = builder.connect(&server.url()).await?;
    let (subject, start, mut number) = (key(0), Instant::now(), 0);
    while checks.map_or(start.elapsed() < WINDOW * 11 / 10, |checks| number < checks) {
        let decision = limiter.check(subject.as_str()).await?;
        ensure!(decision.is_admitted(), "check {number} was refused");
        number += 1;
    }
    let keys = limiter.stored_keys(subject.as_str())?.into_iter();
    Ok(keys.map(String::from_utf8).collect::<Result<_, _>>()?)
}
