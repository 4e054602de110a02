//! The time of a check that is refused by a cached denial, without a call to the server.

use std::time::Instant;

use anyhow::{Result, ensure};
use limiter_core::{Policy, Quota};
use limiter_redis::RedisLimiter;

use crate::{
    Bench,
    fred_client::WITHIN,
    host::Host,
    subjects::{self, NAME},
    table::{Sample, Table},
};

const CHECKS: u32 = 2_000;

/// Prints the time of a check of a refused key, and how many checks were sent to the server.
pub(crate) fn table(bench: &Bench) -> Result<()> {
    let mut time = Sample::default();
    let before = scripts_run(&bench.host);
    bench.runtime.block_on(async {
        let connection = limiter_redis::connect(&bench.host.url()).await?;
        let policy = Policy::gcra(NAME, Quota::per_hour(1));
        let limiter = RedisLimiter::builder(policy).deadline(WITHIN).build_on(connection)?;
        let key = subjects::key(0);
        // The first takes the only permit, and the denial of the second is cached.
        let _ = limiter.check(&key).await?;
        let _ = limiter.check(&key).await?;
        for _ in 0..bench.effort.clients.number {
            let start = Instant::now();
            for _ in 0..CHECKS {
                let decision = limiter.check(&key).await?;
                ensure!(!decision.is_admitted(), "a key without permits was admitted");
            }
            time.push(start.elapsed().as_nanos() as f64 / f64::from(CHECKS));
        }
        Ok(())
    })?;
    let sent = scripts_run(&bench.host) - before;

    let checks = bench.effort.clients.number * CHECKS as usize + 2;
    println!(
        "## Cached denials\n\nChecks of one refused key by one task, one check after the other: the \
         median of {} rounds of {CHECKS} checks, and the range of the middle half of them.\n",
        bench.effort.clients.number
    );
    let mut table = Table::new(&["ns a check", "round trips", "of checks"]);
    table.row([time.show(1.0, 0), sent.to_string(), checks.to_string()]);
    table.print();
    if sent * 2 > checks {
        println!("Most checks were round trips: no denial was cached.\n");
    }
    Ok(())
}

/// Returns how many times the server has run a script by its digest.
fn scripts_run(host: &Host) -> usize {
    // Without calls there is no such line.
    let line = host.info("commandstats", "cmdstat_evalsha").unwrap_or_default();
    let calls = line.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}
