//! How many bytes a key takes in the server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;

use crate::{
    Bench,
    classics::{self, Classic},
    fred_client::WITHIN,
    subjects::{self, NAME, WINDOW},
    table::Table,
    wire::{Calls, Pipe},
};

use Fill::{Checks, Slots};

/// A state that is measured.
struct Row {
    name: String,
    limit: Limit,
    fill: Fill,
}

/// What creates the state.
enum Limit {
    Policy(Policy),
    Classic(Classic),
}

enum Fill {
    /// So many checks.
    Checks(usize),
    /// Checks for as long as a window and a slot last.
    Slots,
}

/// How long checks fill slots.
const FILL_TIME: Duration = WINDOW.saturating_mul(11).checked_div(10).unwrap();

/// Prints the bytes of a key by each algorithm.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    println!(
        "## Memory\n\nThat of a subject's keys by MEMORY USAGE, which includes their names and leaves out the entries \
         for their expiry, some 30 bytes each.\n"
    );
    let mut table = Table::new(&["state", "bytes", "of these, name"]);
    for (index, row) in rows()?.into_iter().enumerate() {
        let prefix = format!("m{index:02}");
        let keys = match &row.limit {
            Limit::Policy(policy) => fill_by_limiter(bench, policy, &row.fill, &prefix),
            Limit::Classic(classic) => {
                fill_by_script(bench, classic, &row.fill, &prefix).map(|key| vec![key])
            }
        };
        let keys = keys.with_context(|| row.name.clone())?;
        let (mut all, mut names) = (0, 0);
        for key in keys {
            let reply = bench.host.command(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?;
            let bytes = reply.strip_prefix(':').and_then(|bytes| bytes.parse::<u64>().ok());
            let quoted = || format!("{}: MEMORY USAGE {key:?}: {reply:?}", row.name);
            all += bytes.with_context(quoted)?;
            names += key.len();
        }
        table.row([row.name, all.to_string(), names.to_string()]);
    }
    table.print();
    Ok(())
}

fn rows() -> Result<Vec<Row>> {
    let row = |name: &str, policy, fill| Row {
        name: name.to_owned(),
        limit: Limit::Policy(policy),
        fill,
    };
    let hourly = Quota::per_hour(2_000);
    let window = Quota::new(100_000, WINDOW)?;
    let mut rows = vec![
        row("GCRA", Policy::gcra(NAME, hourly), Checks(1)),
        // So many that the debt lasts until it is measured.
        row(
            "GCRA, with a remainder",
            Policy::gcra(NAME, subjects::with_remainder()),
            Checks(1_000),
        ),
        row("leaky queue", Policy::leaky_queue(NAME, 50, hourly), Checks(1)),
        row("fixed window", Policy::fixed_window(NAME, hourly), Checks(1)),
        row("sliding counter", Policy::sliding_counter(NAME, hourly), Checks(1)),
    ];
    for slots in [10, 60, 1_000] {
        let policy = subjects::sub_windows(window, slots)?;
        rows.push(row(&format!("sub-windows, {slots} slots"), policy, Slots));
    }
    for entries in [100, 1_000] {
        let policy = Policy::sliding_log(NAME, hourly);
        rows.push(row(&format!("log, {entries} entries"), policy, Checks(entries)));
    }
    for limits in [2, 4, 8] {
        rows.push(row(&format!("{limits} limits"), subjects::several(limits)?, Checks(1)));
    }
    let classic = |classic: Classic, fill| {
        let name = match fill {
            Checks(entries @ 2..) => format!("{}, {entries} entries", classic.name),
            Checks(_) | Slots => classic.name.clone(),
        };
        Row { name, limit: Limit::Classic(classic), fill }
    };
    let hour = Duration::from_secs(3_600);
    rows.push(classic(classics::redis_rate(2_000), Checks(1)));
    rows.push(classic(classics::fixed_window(2_000), Checks(1)));
    rows.extend([10, 60, 1_000].map(|slots| classic(classics::sub_windows(100_000, slots), Slots)));
    rows.extend([100, 1_000].map(|entries| classic(classics::log(2_000, hour), Checks(entries))));
    Ok(rows)
}

/// Fills a state by a limiter's checks, and returns its keys.
fn fill_by_limiter(
    bench: &Bench,
    policy: &Policy,
    fill: &Fill,
    prefix: &str,
) -> Result<Vec<String>> {
    let subject = subjects::key(0);
    bench.runtime.block_on(async {
        let connection = limiter_redis::connect(&bench.host.url()).await?;
        let limiter = RedisLimiter::builder(policy.clone())
            .prefix(prefix)
            .deadline(WITHIN)
            .build_on(connection)?;
        let (mut checks, start) = (0, Instant::now());
        while match *fill {
            Checks(number) => checks < number,
            Slots => start.elapsed() < FILL_TIME,
        } {
            let decision = limiter.check(&subject).await?;
            ensure!(decision.is_admitted(), "check {checks} was refused");
            checks += 1;
        }
        let keys = limiter.stored_keys(&subject)?.into_iter();
        Ok(keys.map(String::from_utf8).collect::<Result<_, _>>()?)
    })
}

/// Fills a state by a classic script, and returns its key.
fn fill_by_script(bench: &Bench, classic: &Classic, fill: &Fill, prefix: &str) -> Result<String> {
    let key = subjects::stored_key(prefix, &subjects::key(0));
    let digest = bench.host.load(classic.source)?;
    match *fill {
        Checks(number) => {
            let mut words = vec!["EVALSHA", &digest, "1", &key];
            words.extend(classic.arguments.iter().map(String::as_str));
            for _ in 0..number {
                bench.host.command(&words)?;
            }
        }
        Slots => {
            let mut calls =
                Calls::new(&digest, &[vec![key.clone().into_bytes()]], &classic.bytes());
            Pipe::connect(bench.host.port())?.run(&mut calls, FILL_TIME, 0)?;
        }
    }
    Ok(key)
}
