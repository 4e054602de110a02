//! A flood of fresh keys on logs, whose states have no fixed size.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limiter_core::{ManualClock, MemoryLimiter, Policy};

use crate::host;

/// 1,111 fresh keys a second, each with one permit.
const PAUSE: Duration = Duration::from_micros(900);

const HOURS: usize = 3;

const ROOM: usize = 100_000;

/// What the documentation allows for each key: two slots, each with a log of one entry.
const BUDGET: usize = ROOM * 480;

/// Runs the flood, and fails if the states outgrow their budget.
pub(crate) fn run() -> Result<()> {
    let clock = ManualClock::new();
    let policy = Policy::parse("flood", "1000/h by sliding-log")?;
    let before = host::resident()?;
    let limiter = MemoryLimiter::builder(policy).capacity(ROOM).clock(clock.clone()).build()?;
    println!("1,111 fresh keys a second on `1000/h by sliding-log`, room for {ROOM}:\n");
    let a_hour = Duration::from_secs(3_600).as_nanos() / PAUSE.as_nanos();
    let (mut number, mut most) = (0_u64, 0);
    for hour in 1..=HOURS {
        let (mut admitted, start) = (0_u64, Instant::now());
        for _ in 0..a_hour {
            clock.advance(PAUSE);
            number += 1;
            admitted += u64::from(limiter.check(number).is_admitted());
        }
        let grown = host::resident()?.saturating_sub(before) as usize;
        most = grown.max(most);
        let nanos = start.elapsed().as_nanos() / a_hour;
        println!(
            "- hour {hour}: {} MB, {admitted} of {a_hour} admitted, {nanos} ns a check",
            grown >> 20
        );
    }
    println!("\nThe budget is {} MB.\n", BUDGET >> 20);
    ensure!(most <= BUDGET, "the logs took {} MB of {} MB", most >> 20, BUDGET >> 20);
    Ok(())
}
